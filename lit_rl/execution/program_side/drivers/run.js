// Runs the program in descriptor 4. It shares a process with the program, and is not trusted.
const fs = require("fs"), vm = require("vm"), Module = require("module");
const [file, mode] = process.argv.slice(1), source = fs.readFileSync(4, "utf8");
const main = new Module(".");
main.filename = file;
main.paths = [];
process.mainModule = main;
process.argv = [process.argv[0], file];
if (/^\s*(?:import\s+[\w{*"']|export\s)/m.test(source)) {
  import("data:text/javascript;base64," + Buffer.from(source).toString("base64"));
} else {
  main._compile(source, file);
}
