// Makes the calls in standard input, one per line, to the program in descriptor 4; answers by lines in descriptor 3.
(async () => {
  const fs = require("fs"), vm = require("vm"), Module = require("module");
  const file = process.argv[1], source = fs.readFileSync(4, "utf8");
  const [header, ...calls] = fs.readFileSync(0, "utf8").trimEnd().split("\n"), [entry, inPlace] = header.split(" ");
  const {writeSync} = fs, {parse, stringify} = JSON, {entries} = Object;
  const exit = process.reallyExit.bind(process), main = new Module("."), complain = console.error;
  const most = 2000000, deepest = 100, builtIn = globalThis[entry.split(".")[0]];
  let left, told = false;
  main.filename = "/" + file;
  main.paths = [];
  process.argv = [process.argv[0], file];
  const isModule = isModuleSource();
  const look = "(litRl) => eval(`typeof ${litRl} === 'undefined' ? undefined : ${litRl}`)";  // in the program's own scope
  const meta = `({url: "file:///${file}", filename: "/${file}", dirname: "/"})`;  // a text has no address of its own
  const module = `${source.replace(/\bimport\.meta\b/g, meta)}\nexport const litRl = ${look};\n//# sourceURL=`;
  if (!isModule) main._compile(`${source}\n;module.litRl = ${look};`, main.filename);
  const names = isModule ? await import("data:text/javascript," + encodeURIComponent(module) + main.filename) : main.exports;
  const {litRl} = isModule ? names : main, whole = isModule ? names.default : names;
  write("{}");
  for (const call of calls) {
    try {
      const values = parse(call);
      let result = find(entry)(...values);
      if (result instanceof Promise) result = await result;
      left = most;
      write("[" + text(inPlace === "1" ? values[0] : result, deepest) + "]");
    } catch (error) {
      fail(error);
    }
  }
  exit(0);

  // Decides as Node itself does: a source that compiles as a script is a script.
  function isModuleSource() {
    if (!/\b(?:import|export|await)\b/.test(source)) return false;
    try {
      new vm.Script(Module.wrap(source));
      return false;
    } catch ({message}) {
      return /import statement|'import\.meta'|token 'export'|top level bodies of modules/.test(message);
    }
  }

  function write(line) { writeSync(3, line + "\n"); }

  function fail(error) {
    if (error instanceof NotCarried) return write(`{"types":["NotCarried"],"message":${stringify(error.reason)}}`);
    write('{"types":[]}');
    if (!told) complain(error instanceof Error ? error.stack : `Uncaught ${error}`);
    told = true;
  }

  function NotCarried(reason) { this.reason = reason; }

  // Finds a name of the program: declared at its top level, or exported; the only export may have no name.
  function named(name) {
    const found = litRl(name);
    if (found !== undefined && found !== builtIn) return found;
    return names?.[name] ?? whole?.[name] ?? (typeof whole === "function" ? whole : undefined);
  }

  function find(entry) {
    const [head, method = head] = entry.split("."), owner = named(head);
    if (head === method && typeof owner === "function") return owner;
    const holder = head === method || owner === undefined ? named("Solution") : owner;
    const object = holder?.prototype?.[method] ? new holder() : holder;
    if (typeof object?.[method] !== "function") throw new ReferenceError(`the program defines no ${entry}`);
    return (...values) => object[method](...values);
  }

  // Writes JSON as Python reads it: with NaN and infinities.
  function text(value, depth) {
    if (value === null || value === undefined) return "null";
    if (["boolean", "number", "bigint"].includes(typeof value)) return `${value}`;
    if (typeof value === "string") return stringify(value);
    if (typeof value !== "object") throw new NotCarried(`a ${typeof value}`);
    if (!depth) throw new NotCarried(`lists nested deeper than ${deepest}`);
    const isList = value[Symbol.iterator] !== undefined && !(value instanceof Map);
    const items = isList || value instanceof Map ? [...value] : entries(value);
    if ((left -= items.length) < 0) throw new NotCarried("more values than can be held");
    if (isList) return "[" + items.map((item) => text(item, depth - 1)).join() + "]";
    return "{" + items.map(([key, item]) => stringify(`${key}`) + ":" + text(item, depth - 1)).join() + "}";
  }
})();
