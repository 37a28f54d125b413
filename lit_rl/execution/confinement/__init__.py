"""What a process gives up before untrusted code runs in it: namespaces, files, system calls, resources."""
