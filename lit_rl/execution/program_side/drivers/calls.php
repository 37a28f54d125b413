// Makes the calls in standard input, a line each, with the program in descriptor 4; descriptor 3 takes a line per call.
ini_set("display_errors", "stderr");  // only now, so that PHP does not warn of allow_url_include
$lit_rl = (function () {
    $calls = explode("\n", rtrim(stream_get_contents(STDIN), "\n"));
    [$entry, $in_place] = explode(" ", array_shift($calls));
    $answers = fopen("php://fd/3", "w");
    $write = function ($line) use ($answers) { fwrite($answers, $line . "\n"); fflush($answers); };
    $text = function ($value, $depth) use (&$text) {
        if (is_float($value) && !is_finite($value)) return is_nan($value) ? "NaN" : ($value > 0 ? "Infinity" : "-Infinity");
        if ($value instanceof BackedEnum) $value = $value->value;
        if ($value instanceof Traversable) $value = iterator_to_array($value, false);
        if (is_object($value)) $value = get_object_vars($value) ?: ($value instanceof stdClass ? [] : throw new JsonException("no JSON"));
        if (!is_array($value)) return json_encode($value, JSON_THROW_ON_ERROR);
        if (!$depth) throw new JsonException("lists nested deeper than 100");
        $parts = [];
        $is_list = array_is_list($value);
        foreach ($value as $key => $item)
            $parts[] = ($is_list ? "" : json_encode((string) $key, JSON_THROW_ON_ERROR) . ":") . $text($item, $depth - 1);
        return $is_list ? "[" . implode(",", $parts) . "]" : "{" . implode(",", $parts) . "}";
    };
    $find = function ($entry) {
        $named = fn($names, $name) => current(preg_grep("/(^|\\\\)$name$/i", $names));  // in whatever namespace
        [$head, $method] = explode(".", $entry) + [1 => null];
        if ($method === null && $found = $named(get_defined_functions()["user"], $head)) return $found;
        if ($method === null && is_callable($GLOBALS[$head] ?? null)) return $GLOBALS[$head];
        $class = $named(get_declared_classes(), $method === null ? "Solution" : $head);
        if ($class && method_exists($class, $method ?? $head)) return [new $class(), $method ?? $head];
        throw new Error("the program defines no $entry");
    };
    return function () use ($calls, $entry, $in_place, $write, $text, $find) {
        $write("{}");
        $told = false;
        foreach ($calls as $call) {
            try {
                $values = json_decode($call, true, 512, JSON_THROW_ON_ERROR);
                $given = [];
                foreach ($values as $index => $_) $given[] = &$values[$index];  // a parameter may be a reference
                $result = call_user_func_array($find($entry), $given);
                try {
                    $line = "[" . $text($in_place === "1" ? $values[0] : $result, 100) . "]";
                } catch (JsonException) {
                    $line = '{"types":["NotCarried"],"message":"no JSON"}';
                }
                $write($line);
            } catch (Throwable $error) {
                $write('{"types":[]}');
                if (!$told) fwrite(STDERR, "PHP Fatal error:  Uncaught $error\n");
                $told = true;
            }
        }
        exit(0);
    };
})();
include "php://fd/4";
$lit_rl();
