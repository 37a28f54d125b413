// Makes the calls in standard input, a line each, with the program in descriptor 4; descriptor 3 takes a line per call.
(async () => {
  const fs = require("fs"), {runInThisContext} = require("vm"), Module = require("module");
  const file = process.argv[1], source = fs.readFileSync(4, "utf8");
  const [header, ...calls] = fs.readFileSync(0, "utf8").trimEnd().split("\n"), [entry, inPlace] = header.split(" ");
  const {writeSync} = fs, {parse, stringify} = JSON, {isView} = ArrayBuffer, {isArray} = Array, {entries} = Object;
  const exit = process.reallyExit.bind(process), main = new Module("."), complain = console.error;
  const most = 2000000, deepest = 100;
  let left, told = false;
  main.filename = "/" + file;  // absolute, so that source maps are looked for
  main.paths = [];
  Object.assign(globalThis, {require: main.require.bind(main), module: main, exports: main.exports});
  process.argv = [process.argv[0], file];
  const isModule = /^\s*(?:import\s+[\w{*"']|export\s)/m.test(source);
  let names = {};
  if (isModule) names = await import("data:text/javascript;base64," + Buffer.from(source).toString("base64"));
  else runInThisContext(source, {filename: main.filename});
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

  function write(line) { writeSync(3, line + "\n"); }

  function fail(error) {
    if (error instanceof NotCarried) return write(`{"types":["NotCarried"],"message":${stringify(error.reason)}}`);
    write('{"types":[]}');
    if (!told) complain(error instanceof Error ? error.stack : `Uncaught ${error}`);
    told = true;
  }

  function NotCarried(reason) { this.reason = reason; }

  // A name of the program: declared at its top, or exported.
  function named(name) {
    const exported = names[name] ?? names.default?.[name] ?? main.exports[name];
    if (exported !== undefined) return exported;
    if (names.default?.name === name) return names.default;
    return runInThisContext(`typeof ${name} === "undefined" ? undefined : ${name}`);
  }

  function find(entry) {
    const [head, method = head] = entry.split("."), owner = named(head);
    if (head === method && typeof owner === "function") return owner;
    const holder = head === method || owner === undefined ? named("Solution") : owner;
    const object = holder?.prototype?.[method] ? new holder() : holder;
    if (typeof object?.[method] !== "function") throw new ReferenceError(`the program defines no ${entry}`);
    return (...values) => object[method](...values);
  }

  // JSON as Python reads it: with NaN and infinities.
  function text(value, depth) {
    if (value === null || value === undefined) return "null";
    if (["boolean", "number", "bigint"].includes(typeof value)) return `${value}`;
    if (typeof value === "string") return stringify(value);
    if (typeof value !== "object" || value instanceof Set) throw new NotCarried(`a ${typeof value}`);
    if (!depth) throw new NotCarried(`lists nested deeper than ${deepest}`);
    const items = isArray(value) || isView(value) ? Array.from(value) : value instanceof Map ? [...value] : entries(value);
    if ((left -= items.length) < 0) throw new NotCarried("more values than can be held");
    if (isArray(value) || isView(value)) return "[" + items.map((item) => text(item, depth - 1)).join() + "]";
    return "{" + items.map(([key, item]) => stringify(`${key}`) + ":" + text(item, depth - 1)).join() + "}";
  }
})();
