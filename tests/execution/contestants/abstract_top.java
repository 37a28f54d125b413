import java.util.*;

abstract class Animal {
    protected String name;
    Animal(String name) { this.name = name; }
    abstract String sound();
    public String toString() { return name + " says " + sound(); }
}

class Dog extends Animal {
    Dog(String n) { super(n); }
    String sound() { return "Woof"; }
}

class Cat extends Animal {
    Cat(String n) { super(n); }
    String sound() { return "Meow"; }
}

public class Zoo {
    public static void main(String[] args) {
        Scanner sc = new Scanner(System.in);
        List<Animal> all = new ArrayList<>();
        while (sc.hasNext()) {
            String kind = sc.next();
            all.add(kind.equals("dog") ? new Dog(sc.next()) : new Cat(sc.next()));
        }
        all.sort(Comparator.comparing(a -> a.name));
        all.forEach(System.out::println);
    }
}
/* cases
wrong: Comparator.comparing(a -> a.name) >>> Comparator.comparing(Animal::sound)
case: dog Rex|cat Tom|dog Ace => Ace says Woof|Rex says Woof|Tom says Meow
*/
