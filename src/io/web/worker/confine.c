/* SPDX-License-Identifier: Apache-2.0 */
#include "io/web/worker/confine.h"

#include "lib/base/cleanup.h"
#include "io/web/packet/packet.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

/* For heap and other private memory: 576 connections with TLS take 60 MiB. A reply's body is shared and does
 * not count. */
#define DATA_MAX (UINT64_C(512) << 20)
/* Or the limit at the start of the process, if that was lower. */
#define STACK_MAX (UINT64_C(8) << 20)
/* 1.7 times WEB_BODY_MAX for each of 576 connections. Memory that is mapped and not written takes page
 * tables: at most 128 MiB. */
#define SPACE_MAX (UINT64_C(64) << 30)

#if defined(__x86_64__)
#	define ARCH AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#	define ARCH AUDIT_ARCH_AARCH64
#else
#	error "the numbers of this machine's system calls are not known here"
#endif

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#	define SANITIZED true
#elif defined(__has_feature)
#	if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || \
		__has_feature(memory_sanitizer)
#		define SANITIZED true
#	endif
#endif
#ifndef SANITIZED
#	define SANITIZED false
#endif

/* --- privileges --- */

static int set_confine_error(struct error *err, const char *what)
{
	return error_sys(err, errno, "the web server's process: %s", what);
}

int web_drop_privileges(struct error *err)
{
	const unsigned kept = 1U << CAP_DAC_READ_SEARCH;
	struct __user_cap_header_struct head = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct caps[_LINUX_CAPABILITY_U32S_3] = { { .effective = 0 } };

	for (unsigned long c = 0; prctl(PR_CAPBSET_READ, c, 0, 0, 0) >= 0; c++)
		if (c != CAP_DAC_READ_SEARCH)
			(void)prctl(PR_CAPBSET_DROP, c, 0, 0, 0); /* needs CAP_SETPCAP */
	(void)prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return set_confine_error(err, "give up new privileges");
	if (syscall(SYS_capget, &head, caps) < 0)
		return set_confine_error(err, "read its capabilities");
	caps[0] = (struct __user_cap_data_struct){ .effective = caps[0].permitted & kept,
		.permitted = caps[0].permitted & kept };
	caps[1] = (struct __user_cap_data_struct){ .effective = 0 };
	if (syscall(SYS_capset, &head, caps) < 0)
		return set_confine_error(err, "give up its capabilities");
	return 0;
}

/* --- system calls --- */

/* Compares the low 32 bits of an argument: the kernel takes each argument that is compared here for an int. */
struct condition {
	enum { NONE, IS, IS_NOT } op;
	unsigned arg;
	uint32_t mask, value;
};

struct allowed {
	int nr;
	struct condition when[2];
};

#define WRITE_FLAGS \
	((uint32_t)(O_ACCMODE | O_CREAT | O_TRUNC | O_APPEND | (O_TMPFILE & ~O_DIRECTORY)))
#define ALL_BITS UINT32_MAX
/* Of these kinds, RLIMIT_DATA counts private memory alone: not shared memory, and not mappings that grow
 * downwards. Huge pages are the node's. */
#define MAP_KINDS ((uint32_t)(MAP_TYPE | MAP_GROWSDOWN | MAP_HUGETLB))

/* clang-format off */
#define ANY           { NONE, 0, 0, 0 }
#define EQUALS(n, v)  { IS, (n), ALL_BITS, (v) }
#define ONLY_READ(n)  { IS, (n), WRITE_FLAGS, O_RDONLY }
#define NOT_CODE(n)   { IS, (n), PROT_EXEC, 0 }
#define NOT_AGENTS(n) { IS_NOT, (n), ALL_BITS, WEB_FD_SOCKET }
#define NO_CONNECT(n) { IS, (n), MSG_FASTOPEN, 0 }
#define ONLY_DATA(n)  { IS, (n), MAP_KINDS, MAP_PRIVATE }

#define ALLOW(name)          { SYS_##name, { ANY, ANY } }
#define ALLOW_IF(name, a, b) { SYS_##name, { a, b } }
/* clang-format on */

/*
 * Calls that are left out on purpose:
 *  - sendmsg() to the agent, and dup, which would copy the agent's socket. With them the process could send a
 *    descriptor that takes forever to close.
 *  - MSG_FASTOPEN, which connects, even a listening socket that was shut down.
 *  - ioctl and most of fcntl, which make the kernel send signals.
 *  - socket, connect, bind; clone, fork, execve; kill and its kind; prlimit, ptrace, process_vm_*.
 *  - Calls that write or remove files.
 *  - Memory that no limit counts: memfd_create, shared mappings (those that the process needs exist already),
 *    and mremap, which can grow the stack.
 */
static const struct allowed table[] = {
	/* connections, and the agent */
	ALLOW(accept4),
	ALLOW(shutdown),
	ALLOW(getsockopt),
	ALLOW(setsockopt),
	ALLOW(getsockname),
	ALLOW(getpeername),
	ALLOW(read),
	ALLOW(readv),
	ALLOW(write),
	ALLOW(writev),
	ALLOW(recvfrom),
	ALLOW(recvmsg),
	ALLOW_IF(sendto, NO_CONNECT(3), ANY),
	ALLOW_IF(sendmsg, NOT_AGENTS(0), NO_CONNECT(2)),
	ALLOW(close),
	ALLOW_IF(fcntl, EQUALS(1, F_GETFL), ANY),
	ALLOW_IF(fcntl, EQUALS(1, F_SETFL), ANY),
	ALLOW_IF(fcntl, EQUALS(1, F_GETFD), ANY),
	ALLOW_IF(fcntl, EQUALS(1, F_SETFD), ANY),
	ALLOW_IF(fcntl, EQUALS(1, F_GET_SEALS), ANY),
	/* waiting */
	ALLOW(epoll_create1),
	ALLOW(epoll_ctl),
	ALLOW(epoll_pwait),
	ALLOW(ppoll),
	ALLOW(futex),
	ALLOW(nanosleep),
	ALLOW(clock_nanosleep),
	ALLOW(clock_gettime),
	ALLOW(gettimeofday),
	ALLOW(restart_syscall),
	ALLOW(sched_yield),
	/* files that are read again */
	ALLOW_IF(openat, ONLY_READ(2), ANY),
	ALLOW(newfstatat),
	ALLOW(fstat),
	ALLOW(statx),
	ALLOW(faccessat),
	ALLOW(lseek),
	ALLOW(pread64),
	/* memory, and no new code */
	ALLOW(brk),
	ALLOW_IF(mmap, NOT_CODE(2), ONLY_DATA(3)),
	ALLOW_IF(mprotect, NOT_CODE(2), ANY),
	ALLOW(munmap),
	ALLOW(madvise),
	ALLOW(getrandom),
	/* the process itself */
	ALLOW(getpid),
	ALLOW(gettid),
	ALLOW(getuid),
	ALLOW(geteuid),
	ALLOW(getrusage),
	ALLOW_IF(sched_setscheduler, EQUALS(0, 0), ANY),
	ALLOW_IF(setpriority, EQUALS(0, PRIO_PROCESS), EQUALS(1, 0)),
	ALLOW(rt_sigaction),
	ALLOW(rt_sigprocmask),
	ALLOW(rt_sigreturn),
	ALLOW(sigaltstack),
	ALLOW(exit),
	ALLOW(exit_group),
#ifdef __x86_64__ /* older calls, which arm64 never had */
	ALLOW_IF(open, ONLY_READ(1), ANY),
	ALLOW(stat),
	ALLOW(lstat),
	ALLOW(access),
	ALLOW(poll),
	ALLOW(epoll_wait),
	ALLOW(time),
#endif
};

#define CONDITION_STEPS 3
#define RULE_STEPS_MAX  (2 * CONDITION_STEPS + 3)
#define STEPS_MAX       (ARRAY_LEN(table) * RULE_STEPS_MAX + 5)

struct filter_program {
	struct sock_filter v[STEPS_MAX];
	unsigned short n;
};

static void add_bpf_instruction(struct filter_program *p, uint16_t code, uint32_t k,
	uint8_t if_true, uint8_t if_false)
{
	p->v[p->n++] =
		(struct sock_filter){ .code = code, .k = k, .jt = if_true, .jf = if_false };
}

static void emit_bpf_load(struct filter_program *p, size_t offset)
{
	add_bpf_instruction(p, BPF_LD | BPF_W | BPF_ABS, (uint32_t)offset, 0, 0);
}

static void emit_bpf_return(struct filter_program *p, uint32_t what)
{
	add_bpf_instruction(p, BPF_RET | BPF_K, what, 0, 0);
}

/* Continues if the condition holds, else skips @skip steps. Both architectures store the low half of an
 * argument first. */
static void emit_bpf_condition(struct filter_program *p, const struct condition *c,
	uint8_t skip)
{
	emit_bpf_load(p, offsetof(struct seccomp_data, args) + c->arg * sizeof(uint64_t));
	add_bpf_instruction(p, BPF_ALU | BPF_AND | BPF_K, c->mask, 0, 0);
	add_bpf_instruction(p, BPF_JMP | BPF_JEQ | BPF_K, c->value, c->op == IS ? 0 : skip,
		c->op == IS ? skip : 0);
}

/* The call's number is loaded, before and after. */
static void emit_bpf_allowed(struct filter_program *p, const struct allowed *a)
{
	unsigned n = 0;

	while (n < ARRAY_LEN(a->when) && a->when[n].op != NONE)
		n++;
	add_bpf_instruction(p, BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)a->nr, 0,
		(uint8_t)(CONDITION_STEPS * n + 1 + (n > 0)));
	for (unsigned i = 0; i < n; i++)
		emit_bpf_condition(p, &a->when[i],
			(uint8_t)(CONDITION_STEPS * (n - i - 1) + 1));
	emit_bpf_return(p, SECCOMP_RET_ALLOW);
	if (n > 0)
		emit_bpf_load(p, offsetof(struct seccomp_data, nr));
}

static int allow_only_table(struct error *err)
{
	struct filter_program p = { .n = 0 };
	struct sock_fprog all = { .filter = p.v };

	emit_bpf_load(&p, offsetof(struct seccomp_data, arch));
	add_bpf_instruction(&p, BPF_JMP | BPF_JEQ | BPF_K, ARCH, 1, 0);
	emit_bpf_return(&p, SECCOMP_RET_KILL_PROCESS);
	emit_bpf_load(&p, offsetof(struct seccomp_data, nr));
	for (size_t i = 0; i < ARRAY_LEN(table); i++)
		emit_bpf_allowed(&p, &table[i]);
	/* As an older kernel would: libraries then try another call. */
	emit_bpf_return(&p, SECCOMP_RET_ERRNO | ENOSYS);
	all.len = p.n;
	if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &all, 0, 0) < 0)
		return set_confine_error(err, "filter its system calls");
	return 0;
}

/* Never raises a limit. */
static int lower_rlimit(int resource, rlim_t max)
{
	struct rlimit r;

	if (getrlimit(resource, &r) < 0)
		return -1;
	r.rlim_max = r.rlim_max < max ? r.rlim_max : max;
	r.rlim_cur = r.rlim_cur < r.rlim_max ? r.rlim_cur : r.rlim_max;
	return setrlimit(resource, &r);
}

int web_confine(struct error *err)
{
	if (SANITIZED)
		return 0;
	if (lower_rlimit(RLIMIT_DATA, DATA_MAX) < 0 ||
		lower_rlimit(RLIMIT_STACK, STACK_MAX) < 0 ||
		lower_rlimit(RLIMIT_AS, SPACE_MAX) < 0)
		return set_confine_error(err, "limit its memory");
	return allow_only_table(err);
}
