/* SPDX-License-Identifier: Apache-2.0 */
#include "gate-test.h"

#include "container/gate/internal.h"

#include <signal.h>

const char *gate_test_waits = "nothing";
struct slice_arbiter gate_arbiter;
static char *dir;

static void too_late(int signal)
{
	(void)signal;
	(void)!write(STDERR_FILENO, "# waited for ", 13);
	(void)!write(STDERR_FILENO, gate_test_waits, strlen(gate_test_waits));
	(void)!write(STDERR_FILENO, "\n", 1);
	_exit(1);
}

void gate_test(void (*fn)(void), uint32_t gpus)
{
	int status = -1;
	pid_t pid = fork();

	if (!pid) {
		(void)signal(SIGALRM, too_late);
		alarm(PATIENCE_S);
		td_new();
		slice_arbiter_start_quanta(&gate_arbiter, dir, gpus);
		fn();
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

uint32_t doorbell(uint32_t gpu)
{
	return atomic_load(&slice_arbiter_page(A, gpu)->gate) & TURN_DOORBELL;
}

uint64_t in_flight(uint32_t gpu)
{
	struct turn_gpu_page *p = slice_arbiter_page(A, gpu);

	return atomic_load(&p->begun) - atomic_load(&p->done);
}

struct gate_process *process(void)
{
	return gate_process_if_any();
}

bool submit(unsigned int flags)
{
	struct turn_gpu_page *g = gate_begin(NULL, flags);

	td_submit(0);
	gate_end(g);
	return g;
}

static void *run_submitter(void *arg)
{
	struct submitter *s = arg;
	struct turn_gpu_page *g;
	int n = (int)((uintptr_t)s->stream & 0xff);

	td_current(n);
	g = gate_begin(s->stream, s->flags);
	td_submit(n);
	atomic_store(&s->counted, g != NULL);
	gate_end(g);
	atomic_store(&s->passed, true);
	return NULL;
}

void submit_on_thread(struct submitter *s)
{
	pthread_attr_t attr;
	pthread_t thread;

	CHECK(!pthread_attr_init(&attr));
	CHECK(!pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED));
	CHECK(!pthread_create(&thread, &attr, run_submitter, s));
}

int gate_test_setup(void **state)
{
	(void)state;
	dir = test_tmpdir();
	return 0;
}

int gate_test_teardown(void **state)
{
	(void)state;
	test_rmdir(dir);
	return 0;
}
