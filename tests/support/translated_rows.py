"""Rows in the formats of HumanEval-X and MultiPL-E: a function that adds one, in each language."""

# ruff: noqa: E501 - programs

from __future__ import annotations

from typing import Any

SIGNATURES = {
    "cpp": "#include <vector>\nusing namespace std;\n// Adds one.\nint addOne(int x) {\n",
    "java": "import java.util.*;\n\nclass Solution {\n    /** Adds one. */\n    public int addOne(int x) {\n",
    "javascript": "// Adds one.\nfunction addOne(x){\n",
    "go": "// Adds one.\nfunc addOne(x int) int {\n",
    "rust": "/// Adds one.\nfn addOne(x: i32) -> i32 {\n",
}
BODIES = {
    "cpp": "    return x + 1;\n}\n",
    "java": "        return x + 1;\n    }\n}\n",
    "javascript": "  const fs = require('fs');\n  return x + 1;\n}\n",
    "go": '    number, _ := strconv.Atoi(strings.TrimSpace(" 1 "))\n    return x + number // os.Exit\n}\n',
    "rust": "    x + 1\n}\n",
}
PLAIN = {
    "cpp": "#undef NDEBUG\n#include <assert.h>\nint main() { assert(addOne(3) == 4); }",
    "java": "public class Main { public static void main(String[] w) { if (new Solution().addOne(3) != 4) throw new AssertionError(); } }",
    "javascript": "console.assert(addOne(3) === 4)",
    "go": "func TestAddOne(t *testing.T) {\n    assert := assert.New(t)\n    assert.Equal(4, addOne(3))\n}",
    "rust": "#[cfg(test)]\nmod tests {\n    use super::*;\n    #[test]\n    fn adds() { assert_eq!(addOne(3), 4); }\n}",
}
GO_SETUP = 'package main\n\nimport (\n    "testing"\n    "github.com/stretchr/testify/assert"\n)\n'


def humanevalx(language: str, number: int) -> dict[str, Any]:
    declaration = SIGNATURES[language]
    prompt = {"rust": "\n/* Adds. */\n", "go": 'import (\n    "math"\n)\n\n' + declaration}.get(language, declaration)
    if language == "rust":
        declaration = "\nuse rand::Rng;\n" + declaration
    return {"task_id": f"{language.capitalize()}/{number}", "prompt": prompt, "declaration": declaration, "canonical_solution": BODIES[language],
            "test": PLAIN[language], "import": "", "test_setup": GO_SETUP}  # fmt: skip


MULTIPLE = {
    "cpp": (SIGNATURES["cpp"], "}\nint main() {\n    auto candidate = addOne;\n    assert(candidate(3) == (4));\n}\n"),
    "java": (
        "import java.util.*;\nimport org.javatuples.*;\n\nclass Problem {\n    // Adds one.\n    public static int addOne(int x) {\n",
        "    }\n    public static void main(String[] args) {\n    assert(addOne(3) == (4));\n    }\n\n}\n",
    ),
    "javascript": (
        SIGNATURES["javascript"],
        "const assert = require('node:assert');\n\n\nfunction test() {\n  let candidate = addOne;\n  assert.deepEqual(candidate(3),4);\n}\n\ntest();",
    ),
    "go": (
        'package addOne_test\n\nimport (\n    "testing"\n    "fmt"\n)\n\n' + SIGNATURES["go"],
        'func TestAddOne(t *testing.T) {\n  candidate := addOne\n\ttype test struct {\n\t\tactual   interface{}\n\t\texpected interface{}\n\t}\n'
        '   tests := []test{\n     { actual: candidate(3), expected: 4 },\n   }\n\n\tfor i, tc := range tests {\n'
        '\t\tt.Run(fmt.Sprintf("test num % d", i), func(t *testing.T) {\n\t\t\tif fmt.Sprintf("%v", tc.actual) != fmt.Sprintf("%v", tc.expected) {\n'
        '\t\t\t\tt.Errorf("expected \'%s\', got \'%s\'", tc.expected, tc.actual)\n\t\t\t}\n\t\t})\n\t}\n}\n',
    ),
    "rust": (SIGNATURES["rust"], "}\n\nfn main() {\n    let candidate = addOne;\n    assert_eq!(candidate(3), 4);\n}\n"),
}  # fmt: skip
NAMES = {"cpp": "cpp", "java": "java", "javascript": "js", "go": "go_test.go", "rust": "rs"}


def multiple(language: str, number: int) -> dict[str, Any]:
    prompt, tests = MULTIPLE[language]
    if language == "cpp":
        prompt = "#include<assert.h>\n" + prompt
    return {
        "name": f"M_{number}",
        "language": NAMES[language],
        "prompt": prompt,
        "tests": tests,
        "stop_tokens": ["\n}"],
    }
