"""Tier 1: mount, process, network, IPC and host-name namespaces of the worker's own.

The file system that remains holds the standard library, shared libraries and named packages (all of them read-only), a
few devices, and a work folder in memory of limited size. The network has no interface, and no process outside can be
named.
"""

from __future__ import annotations

import os
import signal
import stat

from lit_rl.execution.confinement import kernel, visible_files

WORK_FOLDER = "/box"
_ROOT_SIZE = "size=4m,nr_inodes=16k"
_ALL = kernel.CLONE_NEWNS | kernel.CLONE_NEWPID | kernel.CLONE_NEWNET | kernel.CLONE_NEWIPC | kernel.CLONE_NEWUTS
_LOCKED = {
    os.ST_NOSUID: kernel.MS_NOSUID,
    os.ST_NODEV: kernel.MS_NODEV,
    os.ST_NOEXEC: kernel.MS_NOEXEC,
    os.ST_RDONLY: kernel.MS_RDONLY,
    os.ST_NOATIME: kernel.MS_NOATIME,
    os.ST_NODIRATIME: 2048,
    os.ST_RELATIME: 1 << 21,
}


def fork_into_namespaces(user: int) -> None:
    """Continue as the first process in new namespaces; the process outside waits and exits with its status.

    Root gives up its user id only afterwards, or already before in a container without the capability.
    """
    if os.geteuid() != 0:
        _enter_user_namespace()
    else:
        try:
            kernel.check_libc_result(kernel.libc.unshare(_ALL), "unshare")
        except OSError:
            kernel.set_user(user)
            _enter_user_namespace()
    pid = os.fork()
    if pid:  # the process outside: it lives as long as the first process of the new process namespace
        kernel.prctl(kernel.PR_SET_PDEATHSIG, signal.SIGKILL)
        os.closerange(3, 1 << 16)
        _, status = os.waitpid(pid, 0)
        os._exit(os.waitstatus_to_exitcode(status) & 0xFF)
    kernel.prctl(kernel.PR_SET_PDEATHSIG, signal.SIGKILL)


def _enter_user_namespace() -> None:
    """Enter new namespaces inside a new user namespace that maps this user to itself."""
    user, group = os.geteuid(), os.getegid()
    kernel.check_libc_result(kernel.libc.unshare(kernel.CLONE_NEWUSER | _ALL), "unshare")
    # On some systems unshare succeeds and these writes fail: the caller gets the same OSError.
    _write_file("/proc/self/setgroups", "deny")
    _write_file("/proc/self/uid_map", f"{user} {user} 1")
    _write_file("/proc/self/gid_map", f"{group} {group} 1")


def replace_root(staging: str, packages: tuple[str, ...], work_bytes: int, owner: int) -> None:
    """Replace the root by a small root, mounted at ``staging``; the working directory becomes ``WORK_FOLDER``."""
    kernel.mount("", "/", "", kernel.MS_REC | kernel.MS_PRIVATE)
    _mount_tmpfs(staging, 0, f"mode=0755,{_ROOT_SIZE}")
    links = filter(os.path.islink, visible_files.LIBRARY_FOLDERS)  # such as ``/lib`` on many systems
    shown = [visible_files.stdlib_folder(), *links, *visible_files.visible_system_files(), *packages]
    for path in sorted(shown, key=len):  # a folder before what lies in it
        _bind_mount(staging, path)
    for path in visible_files.site_packages_folders():
        _mount_tmpfs(staging + path, 0, "size=1m,mode=0755")  # hides the folder but for the packages in it
        for package in packages:
            if package.startswith(path + "/"):
                _bind_mount(staging, package)
        _mount_tmpfs(staging + path, kernel.MS_REMOUNT | kernel.MS_RDONLY)
    os.makedirs(staging + "/dev", 0o755, exist_ok=True)
    for path in visible_files.DEVICES:
        os.close(os.open(staging + path, os.O_CREAT | os.O_WRONLY, 0o666))
        kernel.mount(path, staging + path, "", kernel.MS_BIND)
    for name, number in (("stdin", 0), ("stdout", 1), ("stderr", 2), ("fd", "")):
        os.symlink(f"/proc/self/fd/{number}".rstrip("/"), f"{staging}/dev/{name}")
    os.mkdir(staging + WORK_FOLDER)
    work = f"mode=0700,size={work_bytes},nr_inodes=8k,uid={owner},gid={owner}"
    _mount_tmpfs(staging + WORK_FOLDER, kernel.MS_NOEXEC | kernel.MS_NOATIME, work)
    os.mkdir(staging + "/proc")
    _mount_proc(staging + "/proc")  # allowed to a user only while the old /proc is still visible
    os.mkdir(staging + "/old")
    kernel.pivot_root(staging, staging + "/old")
    os.chdir("/")
    kernel.check_libc_result(kernel.libc.umount2(b"/old", kernel.MNT_DETACH), "unmount /old")
    os.rmdir("/old")
    _mount_tmpfs("/", kernel.MS_REMOUNT | kernel.MS_RDONLY, _ROOT_SIZE)
    os.chdir(WORK_FOLDER)


def _mount_tmpfs(target: str, flags: int, options: str = "") -> None:
    """Mount a file system in memory, or change its flags; it allows neither privileged programs nor devices."""
    kernel.mount("lit_rl", target, "tmpfs", kernel.MS_NOSUID | kernel.MS_NODEV | flags, options)


def _mount_proc(target: str) -> None:
    """Mount ``/proc`` of the new process namespace, for ``/dev/stdin``, if the kernel allows that here."""
    flags = kernel.MS_NOSUID | kernel.MS_NODEV | kernel.MS_NOEXEC
    for options in ("subset=pid,hidepid=invisible", "hidepid=2"):
        try:
            return kernel.mount("proc", target, "proc", flags, options)
        except OSError:
            continue


def _bind_mount(root: str, path: str) -> None:
    """Show the node's ``path`` read-only at the same path under ``root``; links stay links."""
    path = os.path.join(os.path.realpath(os.path.dirname(path)), os.path.basename(path))
    target = root + path
    if os.path.lexists(target):
        return
    os.makedirs(os.path.dirname(target), 0o755, exist_ok=True)
    if os.path.islink(path):
        os.symlink(os.readlink(path), target)
        return
    if stat.S_ISDIR(os.stat(path).st_mode):
        os.mkdir(target, 0o755)
    else:
        os.close(os.open(target, os.O_CREAT | os.O_WRONLY, 0o644))
    kernel.mount(path, target, "", kernel.MS_BIND | kernel.MS_REC)
    # Flags that the mount came with are locked in a user namespace and must be repeated.
    flags = os.statvfs(target).f_flag
    locked = sum(ours for theirs, ours in _LOCKED.items() if flags & theirs)
    kernel.mount("", target, "", kernel.MS_BIND | kernel.MS_REMOUNT | kernel.MS_RDONLY | kernel.MS_NOSUID | locked)


def _write_file(path: str, text: str) -> None:
    with open(path, "w") as file:
        file.write(text)
