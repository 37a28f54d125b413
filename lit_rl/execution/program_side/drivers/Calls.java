import java.io.FileOutputStream;
import java.lang.reflect.*;
import java.nio.charset.StandardCharsets;
import java.util.*;

/** Makes the calls in standard input, a line each; descriptor 3 takes a line per call. Types are those of the method. */
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
                List<?> given = (List<?>) new LitRlCalls(lines[i]).value();
                Method method = find(header, given.size());
                Object[] values = new Object[given.size()];
                for (int j = 0; j < values.length; j++) values[j] = typed(given.get(j), method.getGenericParameterTypes()[j]);
                Object owner = null;
                if (!Modifier.isStatic(method.getModifiers())) {
                    Constructor<?> make = method.getDeclaringClass().getDeclaredConstructor();
                    make.setAccessible(true);
                    owner = make.newInstance();
                }
                Object result = method.invoke(owner, values);
                answer = "[" + text(header[1].equals("1") ? values[0] : result, 100) + "]";
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

    static Method find(String[] header, int count) throws Exception {
        String[] parts = header[0].split("\\.");
        for (int i = parts.length == 2 ? 1 : 2; i < (parts.length == 2 ? 2 : header.length); i++)
            try {
                for (Method method : Class.forName(parts.length == 2 ? parts[0] : header[i]).getDeclaredMethods())
                    if (method.getName().equals(parts[parts.length - 1]) && method.getParameterCount() == count) {
                        method.setAccessible(true);
                        return method;
                    }
            } catch (ClassNotFoundException error) { }  // an inner class, or a word of a comment
        throw new NoSuchMethodException("the program defines no " + header[0]);
    }

    static Object typed(Object value, Type type) {
        Type kind = raw(type);
        if (value == null) return null;
        if (value instanceof Double || value instanceof Long) {
            Number number = (Number) value;
            if (kind == int.class || kind == Integer.class) return Math.toIntExact(number.longValue());
            if (kind == double.class || kind == Double.class) return number.doubleValue();
            if (kind == float.class || kind == Float.class) return number.floatValue();
            if (kind == short.class || kind == Short.class) return number.shortValue();
            if (kind == byte.class || kind == Byte.class) return number.byteValue();
            return value;
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
            List<Object> list = new ArrayList<>();
            for (Object item : items) list.add(typed(item, inside(type, 0)));
            return list;
        }
        if (value instanceof Map) {
            Map<Object, Object> map = new LinkedHashMap<>();
            for (Map.Entry<?, ?> pair : ((Map<?, ?>) value).entrySet()) {
                Object key = pair.getKey();
                Type wanted = inside(type, 0);
                if (wanted == Integer.class || wanted == Long.class) key = typed(Long.valueOf((String) key), wanted);
                map.put(key, typed(pair.getValue(), inside(type, 1)));
            }
            return map;
        }
        return value;
    }

    static Type raw(Type type) {
        return type instanceof ParameterizedType ? ((ParameterizedType) type).getRawType() : type;
    }

    static Type inside(Type type, int index) {
        return type instanceof ParameterizedType ? ((ParameterizedType) type).getActualTypeArguments()[index] : Object.class;
    }

    static String text(Object value, int depth) {
        if (depth == 0) throw new NotCarried();
        if (value instanceof Optional) value = ((Optional<?>) value).orElse(null);
        if (value == null || value instanceof Number || value instanceof Boolean) return String.valueOf(value);
        StringJoiner items = new StringJoiner(",", "[", "]");
        if (value instanceof List) for (Object item : (List<?>) value) items.add(text(item, depth - 1));
        else if (value.getClass().isArray()) for (int i = 0; i < Array.getLength(value); i++) items.add(text(Array.get(value, i), depth - 1));
        else if (value instanceof Map) {
            items = new StringJoiner(",", "{", "}");
            for (Map.Entry<?, ?> pair : ((Map<?, ?>) value).entrySet())
                items.add(text(String.valueOf(pair.getKey()), depth) + ":" + text(pair.getValue(), depth - 1));
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
