/* SPDX-License-Identifier: Apache-2.0 */
#include "support/test.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "io/web/packet/packet.h"
#include "io/web/worker/confine.h"
#include "lib/base/fd-pass.h"

/* What a process that remote clients have taken over can and cannot do. */

#define NOT_CONFINED 77
#define AGENT        ((long)getppid())

static int agent_socket(void)
{
	int pair[2];

	return socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair) < 0 ||
	       dup2(pair[0], WEB_FD_SOCKET) < 0;
}

static long send_descriptor(int sock)
{
	return fd_pass_send(sock, "", 1, &(int){ 0 }, 1, MSG_DONTWAIT);
}

/* Counts @result's call where the filter has not refused it. */
#define TRY(result)                                    \
	do {                                           \
		n++;                                   \
		errno = 0;                             \
		if ((result) != -1 || errno != ENOSYS) \
			return n;                      \
	} while (0)

/* The first of them that the kernel would do; 0: none. */
static int first_possible(void)
{
	static const struct rlimit none = { 0, 0 };
	int n = 0;

	TRY(syscall(SYS_kill, AGENT, 0));
	TRY(syscall(SYS_tgkill, AGENT, AGENT, 0));
	TRY(syscall(SYS_pidfd_open, AGENT, 0));
	TRY(syscall(SYS_prlimit64, AGENT, RLIMIT_NOFILE, NULL, NULL));
	TRY(syscall(SYS_setpriority, PRIO_PROCESS, AGENT, 0));
	TRY(syscall(SYS_setpriority, PRIO_USER, 0, 0));
	TRY(syscall(SYS_sched_setscheduler, AGENT, SCHED_OTHER, NULL));
	TRY(syscall(SYS_ptrace, 0, 0, 0, 0));
	TRY(syscall(SYS_process_vm_readv, AGENT, NULL, 0, NULL, 0, 0));
	TRY(syscall(SYS_fcntl, 0, F_SETOWN, AGENT));
	TRY(syscall(SYS_fcntl, 0, F_SETSIG, SIGKILL));
	TRY(syscall(SYS_fcntl, 0, F_DUPFD, 0));
	TRY(syscall(SYS_dup, WEB_FD_SOCKET));
	TRY(syscall(SYS_ioctl, 0, 0, 0));
	TRY(send_descriptor(WEB_FD_SOCKET));
	TRY(syscall(SYS_sendmmsg, WEB_FD_SOCKET, NULL, 0, 0));
	TRY(syscall(SYS_socket, AF_UNIX, SOCK_STREAM, 0));
	TRY(syscall(SYS_connect, 0, NULL, 0));
	TRY(sendto(0, "", 0, MSG_FASTOPEN, NULL, 0));
	TRY(syscall(SYS_sendmsg, 0, NULL, MSG_FASTOPEN));
	TRY(syscall(SYS_openat, AT_FDCWD, "/dev/null", O_WRONLY));
	TRY(syscall(SYS_openat, AT_FDCWD, "/dev/null", O_RDWR));
	TRY(syscall(SYS_openat, AT_FDCWD, "/nonexistent", O_RDONLY | O_CREAT, 0600));
	TRY(syscall(SYS_openat, AT_FDCWD, "/dev/null", O_RDONLY | O_TRUNC));
	TRY(syscall(SYS_openat, AT_FDCWD, "/tmp", O_RDONLY | O_TMPFILE, 0600));
	TRY(syscall(SYS_unlinkat, AT_FDCWD, "/nonexistent", 0));
	TRY(syscall(SYS_renameat2, AT_FDCWD, "/nonexistent", AT_FDCWD, "/nonexistent", 0));
	TRY(syscall(SYS_mkdirat, AT_FDCWD, "/", 0));
	TRY(syscall(SYS_fchmodat, AT_FDCWD, "/nonexistent", 0));
	TRY(syscall(SYS_ftruncate, WEB_FD_SHM, 0));
	TRY(syscall(SYS_execve, "/nonexistent", NULL, NULL));
	TRY(syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0));
	TRY(syscall(SYS_unshare, 0));
	TRY(syscall(SYS_mount, NULL, NULL, NULL, 0, NULL));
	TRY(syscall(SYS_mmap, NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS,
		-1, 0));
	/* Memory that RLIMIT_DATA does not count. */
	TRY(syscall(SYS_mmap, NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
		-1, 0));
	TRY(syscall(SYS_mmap, NULL, 4096, PROT_READ | PROT_WRITE,
		MAP_SHARED_VALIDATE | MAP_ANONYMOUS, -1, 0));
	TRY(syscall(SYS_mmap, NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, WEB_FD_SHM, 0));
	TRY(syscall(SYS_mmap, NULL, 4096, PROT_READ | PROT_WRITE,
		MAP_PRIVATE | MAP_ANONYMOUS | MAP_GROWSDOWN, -1, 0));
	TRY(syscall(SYS_mmap, NULL, 1 << 21, PROT_READ | PROT_WRITE,
		MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB, -1, 0));
	TRY(syscall(SYS_mremap, NULL, 4096, 8192, MREMAP_MAYMOVE, NULL));
	TRY(syscall(SYS_memfd_create, "x", 0));
	TRY(syscall(SYS_shmget, IPC_PRIVATE, 4096, IPC_CREAT | 0600));
	TRY(syscall(SYS_pipe2, NULL, 0));
	TRY(syscall(SYS_prctl, PR_SET_DUMPABLE, 1));
	TRY(syscall(SYS_setrlimit, RLIMIT_DATA, &none));
	TRY(syscall(SYS_setuid, 0));
	return 0;
}

/* What serving needs; 0: all of it can be done. */
static int first_impossible(void)
{
	struct pollfd none = { .fd = -1 };
	char c;
	int fd = open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC);
	void *p = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	const struct sched_param zero = { .sched_priority = 0 };

	if (fd < 0 || read(fd, &c, 1) != 1 || close(fd) < 0)
		return 1;
	if (p == MAP_FAILED || munmap(p, 4096) < 0)
		return 2;
	if (poll(&none, 1, 0) != 0)
		return 3;
	if (sched_setscheduler(0, SCHED_IDLE, &zero) < 0)
		return 4;
	if (send(WEB_FD_SOCKET, "x", 1, MSG_DONTWAIT) != 1)
		return 5;
	if (fcntl(WEB_FD_SOCKET, F_GETFL) < 0)
		return 6;
	return 0;
}

/* Memory beyond the limits: 1: to write; 2: to map. 0: it has none. */
static int first_excess(void)
{
	const size_t space = (size_t)64 << 30, data = (size_t)512 << 20;

	void *p;

	p = mmap(NULL, data, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (p != MAP_FAILED)
		return 1;
	p = mmap(NULL, space, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (p != MAP_FAILED)
		return 2;
	return 0;
}

static int in_child(int (*look)(void))
{
	pid_t pid = fork();
	int status = 0;

	assert_true(pid >= 0);
	if (pid == 0) {
		struct error err = ERROR_INIT;

		if (agent_socket() || web_drop_privileges(&err) < 0 || web_confine(&err) < 0) {
			print_error("%s\n", err.msg);
			_exit(99);
		}
		_exit(prctl(PR_GET_SECCOMP) == 0 ? NOT_CONFINED : look());
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	if (WEXITSTATUS(status) == NOT_CONFINED)
		return 0; /* a build with a sanitizer, which needs calls of its own */
	return WEXITSTATUS(status);
}

static void web_confine__leaves_no_access_to_the_agent(void **state)
{
	(void)state;
	assert_int_equal(in_child(first_possible), 0);
}

static void web_confine__leaves_the_rights_to_serve(void **state)
{
	(void)state;
	assert_int_equal(in_child(first_impossible), 0);
}

static void web_confine__limits_memory_of_every_kind(void **state)
{
	(void)state;
	assert_int_equal(in_child(first_excess), 0);
}

/* Refuses capset(), as the seccomp filter of a container runtime might. */
static int refuse_capset(void)
{
	struct sock_filter v[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_capset, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog all = { .len = ARRAY_LEN(v), .filter = v };

	return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
	       prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &all, 0, 0) < 0;
}

static void web_drop_privileges__fails_where_a_privilege_would_remain(void **state)
{
	pid_t pid = fork();
	int status = 0;

	(void)state;
	assert_true(pid >= 0);
	if (pid == 0) {
		struct error err = ERROR_INIT;

		if (refuse_capset())
			_exit(NOT_CONFINED);
		_exit(web_drop_privileges(&err) == 0 ||
			!strstr(err.msg, "give up its capabilities"));
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	if (WEXITSTATUS(status) == NOT_CONFINED)
		skip(); /* no filters here */
	assert_int_equal(WEXITSTATUS(status), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(web_confine__leaves_no_access_to_the_agent),
		cmocka_unit_test(web_confine__leaves_the_rights_to_serve),
		cmocka_unit_test(web_confine__limits_memory_of_every_kind),
		cmocka_unit_test(web_drop_privileges__fails_where_a_privilege_would_remain),
	};

	return cmocka_run_group_tests_name("web-confine", tests, NULL, NULL);
}
