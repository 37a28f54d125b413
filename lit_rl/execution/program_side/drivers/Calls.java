import java.io.FileOutputStream;
// Imported by name, so that a program's own class of the same name hides none of these.
import java.lang.Boolean; import java.lang.Byte; import java.lang.Character; import java.lang.Class;
import java.lang.ClassNotFoundException; import java.lang.Double; import java.lang.Enum; import java.lang.Exception;
import java.lang.Float; import java.lang.IllegalArgumentException; import java.lang.Integer;
import java.lang.Iterable; import java.lang.Long; import java.lang.Math; import java.lang.NoSuchMethodException;
import java.lang.Number; import java.lang.Object; import java.lang.Record; import java.lang.Runtime;
import java.lang.RuntimeException; import java.lang.Short; import java.lang.String; import java.lang.StringBuilder;
import java.lang.SuppressWarnings; import java.lang.System; import java.lang.Throwable;
import java.lang.reflect.Array; import java.lang.reflect.Constructor; import java.lang.reflect.Field;
import java.lang.reflect.GenericArrayType; import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method; import java.lang.reflect.Modifier; import java.lang.reflect.ParameterizedType;
import java.lang.reflect.Type; import java.lang.reflect.TypeVariable;
import java.math.BigDecimal; import java.math.BigInteger;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList; import java.util.Arrays; import java.util.Collection; import java.util.LinkedHashMap;
import java.util.LinkedHashSet; import java.util.LinkedList; import java.util.List; import java.util.Map;
import java.util.Optional; import java.util.StringJoiner; import java.util.TreeMap; import java.util.TreeSet;

/** Makes the calls in standard input, one per line, with the method's types; answers each by a line in descriptor 3. */
class LitRlCalls {
    static class NotCarried extends RuntimeException { }

    public static void main(String[] words) throws Throwable {
        String[] lines = new String(System.in.readAllBytes(), StandardCharsets.UTF_8).split("\n"), header = lines[0].split(" ");
        FileOutputStream answers = new FileOutputStream("/proc/self/fd/3");
        answers.write("{}\n".getBytes());
        boolean told = false;
        for (int i = 1; i < lines.length; i++) {
            String answer;
            try {
                answer = "[" + text(call(header, (List<?>) new LitRlCalls(lines[i]).value()), 100) + "]";
            } catch (NotCarried error) {
                answer = "{\"types\":[\"NotCarried\"],\"message\":\"no JSON\"}";
            } catch (Throwable error) {
                answer = "{\"types\":[]}";
                if (!told) (error instanceof InvocationTargetException ? error.getCause() : error).printStackTrace();
                told = true;
            }
            answers.write((answer + "\n").getBytes(StandardCharsets.UTF_8));
        }
        System.out.flush();
        Runtime.getRuntime().halt(0);
    }

    /** Calls the first method of this name that takes the arguments; returns its result or changed first argument. */
    static Object call(String[] header, List<?> given) throws Throwable {
        String[] parts = header[0].split("\\.");
        Throwable problem = new NoSuchMethodException("the program defines no " + header[0]);
        for (int i = parts.length == 2 ? 1 : 2; i < (parts.length == 2 ? 2 : header.length); i++)
            try {
                for (Method method : Class.forName(parts.length == 2 ? parts[0] : header[i]).getDeclaredMethods()) {
                    if (!method.getName().equals(parts[parts.length - 1])) continue;
                    try {
                        Object[] values = values(method, given);
                        Object owner = null;
                        if (!Modifier.isStatic(method.getModifiers())) {
                            Constructor<?> make = method.getDeclaringClass().getDeclaredConstructor();
                            make.setAccessible(true);
                            owner = make.newInstance();
                        }
                        method.setAccessible(true);
                        Object result = method.invoke(owner, values);
                        return header[1].equals("1") ? values[0] : result;
                    } catch (InvocationTargetException error) {  // raised by the program
                        throw error;
                    } catch (Exception error) {
                        problem = error;
                    }
                }
            } catch (ClassNotFoundException error) { }  // the name is of an inner class, or a word of a comment
        throw problem;
    }

    static Object[] values(Method method, List<?> given) throws Exception {
        Type[] types = method.getGenericParameterTypes();
        int last = types.length - 1;
        List<Object> values = new ArrayList<>(given);
        if (method.isVarArgs() && given.size() >= last && !(given.size() > last && given.get(last) instanceof List)) {
            values.subList(last, values.size()).clear();
            values.add(given.subList(last, given.size()));
        }
        if (values.size() != types.length) throw new IllegalArgumentException("the method takes " + types.length + " arguments");
        for (int i = 0; i <= last; i++) values.set(i, typed(values.get(i), types[i]));
        return values.toArray();
    }

    /** Returns the first known object that has a type, else a new object of that type. */
    @SuppressWarnings("unchecked")
    static <T> T made(Type kind, T... known) throws Exception {
        for (T one : known) if (!(kind instanceof Class) || ((Class<?>) kind).isInstance(one)) return one;
        return (T) ((Class<?>) kind).getConstructor().newInstance();
    }

    static Object typed(Object value, Type type) throws Exception {
        Type kind = raw(type);
        if (value == null) return null;
        if (value instanceof Double || value instanceof Long) {
            Number number = (Number) value;
            if (kind == int.class || kind == Integer.class) return Math.toIntExact(number.longValue());
            if (kind == double.class || kind == Double.class) return number.doubleValue();
            if (kind == float.class || kind == Float.class) return number.floatValue();
            if (kind == short.class || kind == Short.class) return number.shortValue();
            if (kind == byte.class || kind == Byte.class) return number.byteValue();
            if (kind == long.class || kind == Long.class) return number.longValue();
            if (kind == BigInteger.class) return new BigInteger(value.toString());
            if (kind == BigDecimal.class) return new BigDecimal(value.toString());
            return value.equals((long) number.intValue()) ? (Object) number.intValue() : value;
        }
        if (kind == char.class || kind == Character.class) return ((String) value).charAt(0);
        if (value instanceof List) {
            List<?> items = (List<?>) value;
            Type inner = type instanceof GenericArrayType ? ((GenericArrayType) type).getGenericComponentType() : null;
            if (kind instanceof Class) inner = ((Class<?>) kind).getComponentType();
            if (inner != null) {
                Object array = Array.newInstance((Class<?>) raw(inner), items.size());
                for (int i = 0; i < items.size(); i++) Array.set(array, i, typed(items.get(i), inner));
                return array;
            }
            Collection<Object> list = made(kind, new ArrayList<>(), new LinkedHashSet<>(), new LinkedList<>(), new TreeSet<>());
            for (Object item : items) list.add(typed(item, inside(type, 0)));
            return list;
        }
        if (value instanceof Map) {
            Map<Object, Object> map = made(kind, new LinkedHashMap<>(), new TreeMap<>());
            for (Map.Entry<?, ?> pair : ((Map<?, ?>) value).entrySet()) {
                Object key = pair.getKey();
                Type wanted = inside(type, 0);
                if (wanted instanceof Class && Number.class.isAssignableFrom((Class<?>) wanted)) key = new LitRlCalls((String) key).value();
                map.put(typed(key, wanted), typed(pair.getValue(), inside(type, 1)));
            }
            return map;
        }
        return value;
    }

    static Type raw(Type type) {
        if (type instanceof TypeVariable) return raw(((TypeVariable<?>) type).getBounds()[0]);
        return type instanceof ParameterizedType ? ((ParameterizedType) type).getRawType() : type;
    }

    static Type inside(Type type, int index) {
        return type instanceof ParameterizedType ? ((ParameterizedType) type).getActualTypeArguments()[index] : Object.class;
    }

    static String text(Object value, int depth) throws Exception {
        if (depth == 0) throw new NotCarried();
        if (value instanceof Optional) value = ((Optional<?>) value).orElse(null);
        if (value instanceof Enum) value = ((Enum<?>) value).name();
        if (value instanceof Map.Entry) value = Arrays.asList(((Map.Entry<?, ?>) value).getKey(), ((Map.Entry<?, ?>) value).getValue());
        if (value == null || value instanceof Number || value instanceof Boolean) return String.valueOf(value);
        StringJoiner items = new StringJoiner(",", "[", "]");
        if (value instanceof Iterable) for (Object item : (Iterable<?>) value) items.add(text(item, depth - 1));
        else if (value.getClass().isArray()) for (int i = 0; i < Array.getLength(value); i++) items.add(text(Array.get(value, i), depth - 1));
        else if (value instanceof Map) {
            items = new StringJoiner(",", "{", "}");
            for (Map.Entry<?, ?> pair : ((Map<?, ?>) value).entrySet())
                items.add(text(String.valueOf(pair.getKey()), depth) + ":" + text(pair.getValue(), depth - 1));
        } else if (value.getClass().getSuperclass().getName().equals("java.lang.Record")) {
            items = new StringJoiner(",", "{", "}");
            for (Field field : value.getClass().getDeclaredFields()) {
                field.setAccessible(true);
                if (!Modifier.isStatic(field.getModifiers())) items.add(text(field.getName(), depth) + ":" + text(field.get(value), depth - 1));
            }
        } else if (value instanceof String || value instanceof Character) {
            StringBuilder quoted = new StringBuilder("\"");
            for (char one : value.toString().toCharArray())
                quoted.append(one < ' ' || one > '~' || one == '"' || one == '\\' ? String.format("\\u%04x", (int) one) : "" + one);
            return quoted + "\"";
        } else throw new NotCarried();
        return items.toString();
    }

    final String source;
    int at = 0;

    LitRlCalls(String source) { this.source = source; }

    char next() {
        while (" ,:".indexOf(source.charAt(at)) >= 0) at++;
        return source.charAt(at);
    }

    Object value() {
        char first = next();
        if (first == '"') {
            StringBuilder text = new StringBuilder();
            for (at++; source.charAt(at) != '"'; at++) {
                char one = source.charAt(at);
                if (one == '\\') {
                    one = source.charAt(++at);
                    int known = "ntrbf".indexOf(one);
                    if (known >= 0) one = "\n\t\r\b\f".charAt(known);
                    else if (one == 'u') one = (char) Integer.parseInt(source.substring(at + 1, (at += 4) + 1), 16);
                }
                text.append(one);
            }
            at++;
            return text.toString();
        }
        if (first == '[' || first == '{') {
            List<Object> list = new ArrayList<>();
            Map<String, Object> map = new LinkedHashMap<>();
            for (at++; next() != ']' && next() != '}'; ) {
                if (first == '[') list.add(value());
                else map.put((String) value(), value());
            }
            at++;
            return first == '[' ? list : map;
        }
        int start = at;
        while (at < source.length() && ",]}".indexOf(source.charAt(at)) < 0) at++;
        String word = source.substring(start, at);
        if (word.equals("null")) return null;
        if (word.equals("true") || word.equals("false")) return word.equals("true");
        if (word.matches("-?\\d+")) return Long.valueOf(word);
        return Double.valueOf(word);
    }
}
