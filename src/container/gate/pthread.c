/* SPDX-License-Identifier: Apache-2.0 */
#include "container/gate/pthread.h"

#include "container/loader/forward.h"
#include "container/loader/parse/image.h"
#include "container/sys.h"

#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <sys/prctl.h>

/* The stack includes the program's thread-local storage. Pages that are not touched cost nothing. */
#define STACK_BYTES (512u << 10)
#define SLACK_NS    1000L

struct gate_symbol_lookup {
	const char *name;
	void *ret;
};

static int find_pthread_in_object(struct dl_phdr_info *info, size_t size, void *arg)
{
	struct gate_symbol_lookup *f = arg;
	struct loader_image im;

	(void)size;
	if (image_of_phdr(info, &im))
		f->ret = image_address(&im, f->name);
	return f->ret != NULL;
}

/* The first in the order of loading, as the loader itself would find it. */
static void *find_loaded_symbol(const char *name)
{
	struct gate_symbol_lookup f = { .name = name };

	dl_iterate_phdr(find_pthread_in_object, &f);
	return f.ret;
}

static int create_pthread(const pthread_attr_t *attr, void *(*fn)(void *), void *arg)
{
	int (*call)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *) =
		find_loaded_symbol("pthread_create");
	pthread_t thread;

	return call ? call(&thread, attr, fn, arg) : ENOSYS;
}

static int create_small(void *(*fn)(void *), void *arg)
{
	int (*init)(pthread_attr_t *) = find_loaded_symbol("pthread_attr_init");
	int (*detach)(pthread_attr_t *, int) =
		find_loaded_symbol("pthread_attr_setdetachstate");
	int (*stack)(pthread_attr_t *, size_t) =
		find_loaded_symbol("pthread_attr_setstacksize");
	int (*fini)(pthread_attr_t *) = find_loaded_symbol("pthread_attr_destroy");
	pthread_attr_t attr;
	int r;

	if (!init || !detach || !stack || !fini || init(&attr))
		return ENOSYS;
	(void)detach(&attr, PTHREAD_CREATE_DETACHED);
	(void)stack(&attr, STACK_BYTES);
	r = create_pthread(&attr, fn, arg);
	/* A program with much thread-local storage needs a larger stack. */
	if (r && !init(&attr)) {
		(void)detach(&attr, PTHREAD_CREATE_DETACHED);
		r = create_pthread(&attr, fn, arg);
	}
	(void)fini(&attr);
	return r;
}

bool gate_spawn_thread(void *(*fn)(void *), void *arg)
{
	/* All but 32 and 33, which the C library sends to all threads, and waits for. */
	uint64_t block = ~(UINT64_C(3) << 31), was = 0;
	int e = errno, r;

	if (!find_loaded_symbol("pthread_create"))
		(void)dl_open("libpthread.so.0", RTLD_LAZY);
	/* The new thread has this mask from its first instruction on. */
	(void)syscall(SYS_rt_sigprocmask, SIG_BLOCK, &block, &was, sizeof(was));
	r = create_small(fn, arg);
	(void)syscall(SYS_rt_sigprocmask, SIG_SETMASK, &was, NULL, sizeof(was));
	errno = e;
	return !r;
}

void gate_prepare_thread(const char *name)
{
	(void)syscall(SYS_prctl, PR_SET_NAME, name, 0L, 0L, 0L);
	(void)syscall(SYS_prctl, PR_SET_TIMERSLACK, SLACK_NS, 0L, 0L, 0L);
}
