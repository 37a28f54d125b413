"""System calls that a program may make, by name, and their numbers on two machines.

Numbers are the kernel's stable interface (``asm/unistd_64.h``, ``asm-generic/unistd.h``).
"""

from __future__ import annotations


def _split_syscall_names(text: str) -> tuple[str, ...]:
    return tuple(text.split())


# What computing, files in the work folder, threads and local pairs of sockets need.
ALLOWED = _split_syscall_names(
    """
    read write readv writev pread64 pwrite64 preadv pwritev preadv2 pwritev2 open openat creat
    close close_range stat fstat lstat newfstatat statx statfs fstatfs poll ppoll select pselect6
    epoll_create epoll_create1 epoll_ctl epoll_wait epoll_pwait epoll_pwait2 eventfd eventfd2
    timerfd_create timerfd_settime timerfd_gettime lseek mmap mprotect munmap mremap madvise msync
    mincore brk membarrier rt_sigaction rt_sigprocmask rt_sigreturn rt_sigpending rt_sigsuspend
    rt_sigtimedwait sigaltstack signalfd4 access faccessat faccessat2 pipe pipe2 dup dup2 dup3 fcntl
    flock fsync fdatasync sync_file_range truncate ftruncate fallocate fadvise64 readahead getdents
    getdents64 getcwd chdir fchdir rename renameat renameat2 mkdir mkdirat rmdir link linkat unlink
    unlinkat symlink symlinkat readlink readlinkat umask sendfile copy_file_range sched_yield
    sched_getaffinity sched_getparam sched_getscheduler sched_get_priority_max sched_get_priority_min
    sched_rr_get_interval nanosleep clock_nanosleep clock_gettime clock_getres gettimeofday time times
    getitimer setitimer alarm pause getpid gettid getppid getpgid getpgrp getsid getuid geteuid getgid getegid getresuid
    getresgid getgroups getrlimit setrlimit getrusage sysinfo uname getcpu getpriority capget sendto
    recvfrom sendmsg recvmsg sendmmsg recvmmsg shutdown getsockname getpeername getsockopt setsockopt
    exit exit_group wait4 waitid futex futex_waitv futex_wake futex_wait futex_requeue set_robust_list
    restart_syscall arch_prctl set_tid_address getrandom rseq pkey_alloc pkey_free
    pkey_mprotect
    """
)

# Pretended to succeed: copying files sets modes and times, and Landlock does not guard these.
FAKED = _split_syscall_names(
    """
    chmod fchmod fchmodat fchmodat2 chown fchown lchown fchownat utime utimes utimensat futimesat
    """
)

# What a build may do beyond a program: groups of processes, and what tools do to their own files. Without capabilities
# a user id can only be set to what it is, and make does that for every child.
BUILDING = _split_syscall_names(
    """
    setsid setpgid personality memfd_create sync syncfs setxattr lsetxattr fsetxattr splice tee vmsplice mlock munlock
    mknod mknodat setuid setgid setreuid setregid setresuid setresgid timer_create timer_settime timer_gettime
    timer_getoverrun timer_delete socketpair
    """
)

# Reported as unsupported, as by a file system without attributes: Landlock does not guard reading them either.
UNSUPPORTED = _split_syscall_names("getxattr lgetxattr fgetxattr listxattr llistxattr flistxattr")


def _parse_syscall_numbers(text: str) -> dict[str, int]:
    return {name: int(number) for name, _, number in (pair.partition("=") for pair in text.split())}


_X86_64 = _parse_syscall_numbers(
    "getxattr=191 lgetxattr=192 fgetxattr=193 listxattr=194 llistxattr=195 flistxattr=196 "
    "read=0 write=1 readv=19 writev=20 pread64=17 pwrite64=18 preadv=295 pwritev=296 preadv2=327 "
    "pwritev2=328 open=2 openat=257 openat2=437 creat=85 close=3 close_range=436 stat=4 fstat=5 lstat=6 "
    "newfstatat=262 statx=332 statfs=137 fstatfs=138 poll=7 ppoll=271 select=23 pselect6=270 "
    "epoll_create=213 epoll_create1=291 epoll_ctl=233 epoll_wait=232 epoll_pwait=281 epoll_pwait2=441 "
    "eventfd=284 eventfd2=290 timerfd_create=283 timerfd_settime=286 timerfd_gettime=287 lseek=8 mmap=9 "
    "mprotect=10 munmap=11 mremap=25 madvise=28 msync=26 mincore=27 brk=12 membarrier=324 "
    "rt_sigaction=13 rt_sigprocmask=14 rt_sigreturn=15 rt_sigpending=127 rt_sigsuspend=130 "
    "rt_sigtimedwait=128 sigaltstack=131 signalfd4=289 access=21 faccessat=269 faccessat2=439 pipe=22 "
    "pipe2=293 dup=32 dup2=33 dup3=292 fcntl=72 flock=73 fsync=74 fdatasync=75 sync_file_range=277 "
    "truncate=76 ftruncate=77 fallocate=285 fadvise64=221 readahead=187 getdents=78 getdents64=217 "
    "getcwd=79 chdir=80 fchdir=81 rename=82 renameat=264 renameat2=316 mkdir=83 mkdirat=258 rmdir=84 "
    "link=86 linkat=265 unlink=87 unlinkat=263 symlink=88 symlinkat=266 readlink=89 readlinkat=267 "
    "umask=95 sendfile=40 copy_file_range=326 sched_yield=24 sched_getaffinity=204 sched_getparam=143 "
    "sched_getscheduler=145 sched_get_priority_max=146 sched_get_priority_min=147 "
    "sched_rr_get_interval=148 nanosleep=35 clock_nanosleep=230 clock_gettime=228 clock_getres=229 "
    "gettimeofday=96 time=201 times=100 getitimer=36 setitimer=38 alarm=37 pause=34 timer_create=222 "
    "timer_settime=223 timer_gettime=224 timer_getoverrun=225 timer_delete=226 getpid=39 gettid=186 "
    "getppid=110 getpgid=121 getpgrp=111 getsid=124 getuid=102 geteuid=107 getgid=104 getegid=108 "
    "getresuid=118 getresgid=120 getgroups=115 getrlimit=97 setrlimit=160 getrusage=98 sysinfo=99 "
    "uname=63 getcpu=309 getpriority=140 capget=125 sendto=44 recvfrom=45 sendmsg=46 recvmsg=47 "
    "sendmmsg=307 recvmmsg=299 shutdown=48 getsockname=51 getpeername=52 getsockopt=55 setsockopt=54 "
    "exit=60 exit_group=231 wait4=61 waitid=247 futex=202 futex_waitv=449 futex_wake=454 futex_wait=455 "
    "futex_requeue=456 set_robust_list=273 get_robust_list=274 restart_syscall=219 arch_prctl=158 "
    "set_tid_address=218 getrandom=318 rseq=334 pkey_alloc=330 pkey_free=331 pkey_mprotect=329 chmod=90 "
    "fchmod=91 fchmodat=268 fchmodat2=452 chown=92 fchown=93 lchown=94 fchownat=260 utime=132 "
    "utimes=235 utimensat=280 futimesat=261 fork=57 vfork=58 execve=59 socket=41 connect=42 accept=43 "
    "accept4=288 bind=49 listen=50 ptrace=101 process_vm_readv=310 process_vm_writev=311 "
    "process_madvise=440 pidfd_open=434 pidfd_getfd=438 pidfd_send_signal=424 unshare=272 setns=308 "
    "mount=165 umount2=166 pivot_root=155 chroot=161 setuid=105 setgid=106 setreuid=113 setregid=114 "
    "setresuid=117 setresgid=119 setgroups=116 setfsuid=122 setfsgid=123 capset=126 setsid=112 "
    "setpgid=109 setpriority=141 sched_setparam=142 sched_setscheduler=144 sched_setattr=314 "
    "ioprio_set=251 tkill=200 rt_sigqueueinfo=129 rt_tgsigqueueinfo=297 mknod=133 mknodat=259 "
    "memfd_create=319 memfd_secret=447 shmget=29 shmat=30 shmctl=31 shmdt=67 semget=64 semop=65 "
    "semctl=66 semtimedop=220 msgget=68 msgsnd=69 msgrcv=70 msgctl=71 mq_open=240 mq_unlink=241 "
    "mq_timedsend=242 mq_timedreceive=243 mq_notify=244 mq_getsetattr=245 keyctl=250 add_key=248 "
    "request_key=249 io_uring_setup=425 io_uring_enter=426 io_uring_register=427 bpf=321 "
    "perf_event_open=298 userfaultfd=323 seccomp=317 personality=135 mlock=149 mlock2=325 mlockall=151 "
    "munlockall=152 name_to_handle_at=303 open_by_handle_at=304 quotactl=179 acct=163 swapon=167 "
    "swapoff=168 reboot=169 settimeofday=164 clock_settime=227 adjtimex=159 clock_adjtime=305 "
    "sethostname=170 setdomainname=171 init_module=175 finit_module=313 delete_module=176 "
    "kexec_load=246 syslog=103 vhangup=153 inotify_init=253 inotify_init1=294 inotify_add_watch=254 "
    "fanotify_init=300 fanotify_mark=301 splice=275 tee=276 vmsplice=278 setxattr=188 lsetxattr=189 "
    "fsetxattr=190 removexattr=197 lremovexattr=198 fremovexattr=199 mbind=237 set_mempolicy=238 "
    "migrate_pages=256 move_pages=279 kcmp=312 lookup_dcookie=212 sync=162 syncfs=306 ioperm=173 "
    "iopl=172 modify_ldt=154 clone=56 clone3=435 kill=62 tgkill=234 prlimit64=302 sched_setaffinity=203 "
    "socketpair=53 prctl=157 ioctl=16 execveat=322"
)

_AARCH64 = _parse_syscall_numbers(
    "getxattr=8 lgetxattr=9 fgetxattr=10 listxattr=11 llistxattr=12 flistxattr=13 "
    "name_to_handle_at=264 open_by_handle_at=265 "
    "read=63 write=64 readv=65 writev=66 pread64=67 pwrite64=68 preadv=69 pwritev=70 preadv2=286 "
    "pwritev2=287 openat=56 openat2=437 close=57 close_range=436 fstat=80 newfstatat=79 statx=291 "
    "statfs=43 fstatfs=44 ppoll=73 pselect6=72 epoll_create1=20 epoll_ctl=21 epoll_pwait=22 "
    "epoll_pwait2=441 eventfd2=19 timerfd_create=85 timerfd_settime=86 timerfd_gettime=87 lseek=62 "
    "mmap=222 mprotect=226 munmap=215 mremap=216 madvise=233 msync=227 mincore=232 brk=214 "
    "membarrier=283 rt_sigaction=134 rt_sigprocmask=135 rt_sigreturn=139 rt_sigpending=136 "
    "rt_sigsuspend=133 rt_sigtimedwait=137 sigaltstack=132 signalfd4=74 faccessat=48 faccessat2=439 "
    "pipe2=59 dup=23 dup3=24 fcntl=25 flock=32 fsync=82 fdatasync=83 sync_file_range=84 truncate=45 "
    "ftruncate=46 fallocate=47 fadvise64=223 readahead=213 getdents64=61 getcwd=17 chdir=49 fchdir=50 "
    "renameat=38 renameat2=276 mkdirat=34 linkat=37 unlinkat=35 symlinkat=36 readlinkat=78 umask=166 "
    "sendfile=71 copy_file_range=285 sched_yield=124 sched_getaffinity=123 sched_getparam=121 "
    "sched_getscheduler=120 sched_get_priority_max=125 sched_get_priority_min=126 "
    "sched_rr_get_interval=127 nanosleep=101 clock_nanosleep=115 clock_gettime=113 clock_getres=114 "
    "gettimeofday=169 times=153 getitimer=102 setitimer=103 timer_create=107 timer_settime=110 "
    "timer_gettime=108 timer_getoverrun=109 timer_delete=111 getpid=172 gettid=178 getppid=173 "
    "getpgid=155 getsid=156 getuid=174 geteuid=175 getgid=176 getegid=177 getresuid=148 getresgid=150 "
    "getgroups=158 getrlimit=163 setrlimit=164 getrusage=165 sysinfo=179 uname=160 getcpu=168 "
    "getpriority=141 capget=90 sendto=206 recvfrom=207 sendmsg=211 recvmsg=212 sendmmsg=269 "
    "recvmmsg=243 shutdown=210 getsockname=204 getpeername=205 getsockopt=209 setsockopt=208 exit=93 "
    "exit_group=94 wait4=260 waitid=95 futex=98 futex_waitv=449 futex_wake=454 futex_wait=455 "
    "futex_requeue=456 set_robust_list=99 get_robust_list=100 restart_syscall=128 set_tid_address=96 "
    "getrandom=278 rseq=293 pkey_alloc=289 pkey_free=290 pkey_mprotect=288 fchmod=52 fchmodat=53 "
    "fchmodat2=452 fchown=55 fchownat=54 utimensat=88 execve=221 socket=198 connect=203 accept=202 "
    "accept4=242 bind=200 listen=201 ptrace=117 process_vm_readv=270 process_vm_writev=271 "
    "process_madvise=440 pidfd_open=434 pidfd_getfd=438 pidfd_send_signal=424 unshare=97 setns=268 "
    "mount=40 umount2=39 pivot_root=41 chroot=51 setuid=146 setgid=144 setreuid=145 setregid=143 "
    "setresuid=147 setresgid=149 setgroups=159 setfsuid=151 setfsgid=152 capset=91 setsid=157 "
    "setpgid=154 setpriority=140 sched_setparam=118 sched_setscheduler=119 sched_setattr=274 "
    "ioprio_set=30 tkill=130 rt_sigqueueinfo=138 rt_tgsigqueueinfo=240 mknodat=33 memfd_create=279 "
    "memfd_secret=447 shmget=194 shmat=196 shmctl=195 shmdt=197 semget=190 semop=193 semctl=191 "
    "semtimedop=192 msgget=186 msgsnd=189 msgrcv=188 msgctl=187 mq_open=180 mq_unlink=181 "
    "mq_timedsend=182 mq_timedreceive=183 mq_notify=184 mq_getsetattr=185 keyctl=219 add_key=217 "
    "request_key=218 io_uring_setup=425 io_uring_enter=426 io_uring_register=427 bpf=280 "
    "perf_event_open=241 userfaultfd=282 seccomp=277 personality=92 mlock=228 mlock2=284 mlockall=230 "
    "munlockall=231 quotactl=60 acct=89 swapon=224 swapoff=225 reboot=142 settimeofday=170 "
    "clock_settime=112 adjtimex=171 clock_adjtime=266 sethostname=161 setdomainname=162 init_module=105 "
    "finit_module=273 delete_module=106 kexec_load=104 syslog=116 vhangup=58 inotify_init1=26 "
    "inotify_add_watch=27 fanotify_init=262 fanotify_mark=263 splice=76 tee=77 vmsplice=75 setxattr=5 "
    "lsetxattr=6 fsetxattr=7 removexattr=14 lremovexattr=15 fremovexattr=16 mbind=235 set_mempolicy=237 "
    "migrate_pages=238 move_pages=239 kcmp=272 lookup_dcookie=18 sync=81 syncfs=267 clone=220 "
    "clone3=435 kill=129 tgkill=131 prlimit64=261 sched_setaffinity=122 socketpair=199 prctl=167 "
    "ioctl=29 execveat=281"
)

# What is in none of the lists above is refused as "not permitted": new processes, the network, other processes, signals
# that the kernel sends later (timers may send any, SIGKILL too), namespaces, memory that is counted nowhere, and parts
# of the kernel that none of our programs needs. Calls that have no number here fail as unknown.
NUMBERS = {"x86_64": _X86_64, "aarch64": _AARCH64}
