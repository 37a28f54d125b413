# Makes the calls in standard input, a line each, with the program in descriptor 4; descriptor 3 takes a line per call.
lambda do
  require "json"
  require "set"
  header, *calls = $stdin.read.force_encoding("UTF-8").split("\n")
  entry, in_place = header.split(" ")
  answers, leave = IO.for_fd(3), Process.method(:exit!)
  source = File.read("/proc/self/fd/4", encoding: "UTF-8")
  parse, generate, told = JSON.method(:parse), JSON.method(:generate), false
  [Set, Range, Enumerator].each { |kind| kind.define_method(:to_json) { |*options| to_a.to_json(*options) } }
  write = lambda { |line| answers.syswrite(line + "\n") }
  member = lambda do |owner, name|
    owner.singleton_methods.include?(name.to_sym) ? owner.method(name) : owner.new.method(name)
  end
  named = lambda do |name, scope|
    next scope.local_variable_get(name).method(:call) if scope.local_variable_defined?(name)
    found = scope.receiver.method(name) if scope.receiver.respond_to?(name, true)
    next found if found && found.owner != Kernel
    raise NameError, "the program defines no #{entry}" unless Object.const_defined?(:Solution)
    member.call(Object.const_get(:Solution), name)
  end
  eval(source, TOPLEVEL_BINDING, "program.rb", 1)
  write.call("{}")
  calls.each do |call|
    begin
      values, (head, method) = parse.call(call), entry.split(".")
      found = method ? member.call(Object.const_get(head), method) : named.call(head, TOPLEVEL_BINDING)
      result = found.call(*values)
      line = begin
        generate.call([in_place == "1" ? values[0] : result], allow_nan: true, max_nesting: 100)
      rescue JSON::JSONError
        '{"types":["NotCarried"],"message":"no JSON"}'
      end
      write.call(line)
    rescue Exception => error
      write.call('{"types":[]}')
      STDERR.write(error.full_message(highlight: false, order: :top)) unless told
      told = true
    end
  end
  STDOUT.flush
  leave.call(0)
end.call
