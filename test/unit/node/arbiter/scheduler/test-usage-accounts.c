/* SPDX-License-Identifier: Apache-2.0 */

/* Accounts that outlive the arbiter: nothing is counted twice, nothing becomes less. */
#include "support/test.h"

#include "node/arbiter/scheduler/usage-accounts/usage-accounts.h"
#include "lib/base/fd.h"

#include <unistd.h>

#define ID    "0123456789abcdef0123456789abcdef"
#define OTHER "fedcba98765432100123456789abcdef"

static const uint8_t gpu_a[SLICE_UUID_BYTES] = { 1 }, gpu_b[SLICE_UUID_BYTES] = { 2 };

struct env {
	char *dir;
	char path[128];
	struct usage_accounts t;
};

static void open_test_accounts(struct env *e, const char *boot)
{
	struct error err = ERROR_INIT;

	assert_ok(usage_accounts_open(&e->t, e->path, boot, &err), &err);
}

/* Reads what was stored, as the next arbiter does after a kill. */
static void reopen_accounts(struct env *e)
{
	usage_accounts_close(&e->t);
	open_test_accounts(e, "boot");
}

static int setup(void **state)
{
	struct env *e = calloc(1, sizeof(*e));

	assert_non_null(e);
	e->dir = test_tmpdir();
	(void)snprintf(e->path, sizeof(e->path), "%s/" USAGE_ACCOUNTS_FILE, e->dir);
	open_test_accounts(e, "boot");
	*state = e;
	return 0;
}

static int teardown(void **state)
{
	struct env *e = *state;

	usage_accounts_close(&e->t);
	test_rmdir(e->dir);
	free(e);
	return 0;
}

static uint64_t sum_counter(struct env *e, enum usage_counter which)
{
	uint64_t sums[USAGE_COUNTERS];

	usage_account_total(&e->t, usage_account(&e->t, ID, gpu_a), sums);
	return sums[which];
}

static struct usage_client *new_test_client(struct env *e, uint64_t serial, uint64_t launches)
{
	struct usage_client *client = usage_client_new(&e->t, usage_account(&e->t, ID, gpu_a),
		serial, 0, (uint32_t)serial, 7, NULL);

	assert_non_null(client);
	usage_client_count(client, (const uint64_t[USAGE_COUNTERS]){ launches, 1, 2, 3, 4, 5 });
	return client;
}

static struct usage_client *find_test_client(struct env *e, uint64_t serial)
{
	return usage_client_find(&e->t, usage_account(&e->t, ID, gpu_a), serial, 0);
}

static void accounts__survive_a_kill(void **state)
{
	struct env *e = *state;
	struct usage_account *a = usage_account(&e->t, ID, gpu_a),
			     *b = usage_account(&e->t, ID, gpu_b);

	assert_non_null(a);
	assert_non_null(b);
	assert_ptr_not_equal(a, b);
	assert_ptr_equal(usage_account(&e->t, ID, gpu_a), a);
	assert_null(usage_account_find(&e->t, OTHER, gpu_a));
	usage_raise(&a->charged_ns, 100);
	usage_raise(&a->charged_ns, 90);
	usage_raise(&a->revocations, 7);
	usage_raise(&a->quantum_ends[SCHED_END_CLOSED], 9);
	usage_raise(&a->refusals, 8);
	(void)new_test_client(e, 1, 10);
	(void)new_test_client(e, 2, 20);
	reopen_accounts(e);
	a = usage_account_find(&e->t, ID, gpu_a);
	assert_non_null(a);
	assert_int_equal(usage_load(&a->charged_ns), 100);
	assert_int_equal(usage_load(&a->revocations), 7);
	assert_int_equal(usage_load(&a->quantum_ends[SCHED_END_CLOSED]), 9);
	assert_int_equal(usage_load(&a->refusals), 8);
	assert_int_equal(sum_counter(e, USAGE_LAUNCHES), 30);
	assert_int_equal(sum_counter(e, USAGE_THROTTLE_NS), 10);
}

static void client__continues_from_its_last_counts(void **state)
{
	struct env *e = *state;
	struct usage_client *client;

	(void)new_test_client(e, 1, 10);
	reopen_accounts(e);
	client = find_test_client(e, 1);
	assert_non_null(client);
	assert_null(find_test_client(e, 2));
	assert_int_equal(client->pid, 1);
	assert_int_equal(client->start, 7);
	/* The page of the process has all counts since the client's begin. */
	usage_client_count(client, (const uint64_t[USAGE_COUNTERS]){ 15, 0, 2, 3, 4, 5 });
	assert_int_equal(sum_counter(e, USAGE_LAUNCHES), 15);
	assert_int_equal(sum_counter(e, USAGE_COPIES), 1);
	usage_client_end(&e->t, client);
	assert_int_equal(sum_counter(e, USAGE_LAUNCHES), 15);
	assert_null(find_test_client(e, 1));
	reopen_accounts(e);
	assert_int_equal(sum_counter(e, USAGE_LAUNCHES), 15);
	assert_null(find_test_client(e, 1));
}

/* A kill between any two stores of an end. */
static void end__in_progress_is_finished_at_the_next_start(void **state)
{
	struct env *e = *state;

	for (unsigned int step = 0; step <= USAGE_COUNTERS; step++) {
		struct usage_client *client = new_test_client(e, 100 + step, 10);
		struct usage_account *a = usage_account(&e->t, ID, gpu_a);

		for (unsigned int k = 0; k < USAGE_COUNTERS; k++)
			client->before[k] = usage_load(&a->ended[k]);
		atomic_store(&client->state, USAGE_RECORD_ENDING);
		for (unsigned int k = 0; k < step; k++)
			atomic_store(&a->ended[k],
				client->before[k] + usage_load(&client->counted[k]));
		reopen_accounts(e);
		assert_null(find_test_client(e, 100 + step));
		assert_int_equal(sum_counter(e, USAGE_LAUNCHES), 10 * (step + 1));
		assert_int_equal(sum_counter(e, USAGE_THROTTLE_NS), 5 * (step + 1));
	}
}

static void invalid_counts__saturate_at_the_largest_number(void **state)
{
	struct env *e = *state;
	struct usage_client *client = new_test_client(e, 1, UINT64_MAX);

	(void)new_test_client(e, 2, 5);
	assert_true(sum_counter(e, USAGE_LAUNCHES) == UINT64_MAX);
	assert_int_equal(sum_counter(e, USAGE_WAITS), 6);
	usage_client_end(&e->t, client);
	usage_client_end(&e->t, find_test_client(e, 2));
	assert_true(sum_counter(e, USAGE_LAUNCHES) == UINT64_MAX);
	assert_int_equal(sum_counter(e, USAGE_WAITS), 6);
}

static void slice__that_is_dropped_frees_its_accounts(void **state)
{
	struct env *e = *state;
	struct usage_account *a = usage_account(&e->t, ID, gpu_a), *b;
	struct usage_client *other;

	b = usage_account(&e->t, OTHER, gpu_a);
	other = usage_client_new(&e->t, b, 9, 0, 9, 7, NULL);
	assert_non_null(other);
	(void)new_test_client(e, 1, 10);
	(void)new_test_client(e, 2, 10);
	usage_raise(&a->charged_ns, 100);
	usage_raise(&a->revocations, 7);
	usage_raise(&a->quantum_ends[SCHED_END_CLOSED], 9);
	usage_raise(&a->refusals, 8);
	usage_account_drop(&e->t, a);
	assert_null(usage_account_find(&e->t, ID, gpu_a));
	/* The record is reused, and shows nothing of its earlier content. */
	assert_ptr_equal(usage_account(&e->t, ID, gpu_a), a);
	assert_int_equal(usage_load(&a->charged_ns), 0);
	assert_int_equal(usage_load(&a->revocations), 0);
	assert_int_equal(usage_load(&a->quantum_ends[SCHED_END_CLOSED]), 0);
	assert_int_equal(usage_load(&a->refusals), 0);
	assert_int_equal(sum_counter(e, USAGE_LAUNCHES), 0);
	reopen_accounts(e);
	assert_int_equal(sum_counter(e, USAGE_LAUNCHES), 0);
	assert_non_null(usage_client_find(&e->t, usage_account(&e->t, OTHER, gpu_a), 9, 0));
}

/* The clients of the account have ended, but the account was reused: another slice has it now. */
static void client__of_an_account_of_another_slice_is_dropped(void **state)
{
	struct env *e = *state;
	struct usage_account *a;

	(void)new_test_client(e, 1, 10);
	a = usage_account(&e->t, ID, gpu_a);
	atomic_store(&a->state, USAGE_RECORD_FREE);
	reopen_accounts(e);
	a = usage_account(&e->t, OTHER, gpu_b);
	assert_null(usage_client_find(&e->t, a, 1, 0));
	(void)new_test_client(e, 2, 10);
	e->t.clients[0].account = USAGE_ACCOUNTS_MAX;
	reopen_accounts(e);
	assert_int_equal(sum_counter(e, USAGE_LAUNCHES), 0);
}

static void file__is_recreated_after_a_boot_or_a_change_of_format(void **state)
{
	struct env *e = *state;
	struct error err = ERROR_INIT;

	(void)new_test_client(e, 1, 10);
	usage_accounts_close(&e->t);
	open_test_accounts(e, "another boot");
	assert_int_equal(sum_counter(e, USAGE_LAUNCHES), 0);
	(void)new_test_client(e, 1, 10);
	usage_accounts_close(&e->t);
	assert_ok(file_write_atomic(e->path, "short", 5, 0600, &err), &err);
	open_test_accounts(e, "another boot");
	assert_int_equal(sum_counter(e, USAGE_LAUNCHES), 0);
	usage_accounts_close(&e->t);
	assert_int_equal(unlink(e->path), 0);
	assert_int_equal(symlink("/dev/null", e->path), 0);
	assert_error(usage_accounts_open(&e->t, e->path, "boot", &err), &err, "open");
	assert_int_equal(unlink(e->path), 0);
	open_test_accounts(e, "boot");
}

static bool is_gpu_kept(void *arg, const uint8_t *uuid)
{
	return *(const uint8_t *)arg == uuid[0];
}

static void busy_time__belongs_to_a_gpu_and_old_gpus_are_replaced(void **state)
{
	struct env *e = *state;
	uint8_t kept = 1, uuid[SLICE_UUID_BYTES] = { 0 };
	struct usage_gpu *b = usage_gpu(&e->t, gpu_a, is_gpu_kept, &kept), *c;

	assert_non_null(b);
	usage_raise(&b->ns, 5);
	reopen_accounts(e);
	b = usage_gpu(&e->t, gpu_a, is_gpu_kept, &kept);
	assert_int_equal(usage_load(&b->ns), 5);
	for (unsigned int i = 0; i < 2 * USAGE_GPUS_MAX; i++) {
		uuid[0] = (uint8_t)(2 + i % 100);
		uuid[1] = (uint8_t)(i / 100);
		c = usage_gpu(&e->t, uuid, is_gpu_kept, &kept);
		assert_non_null(c);
		assert_int_equal(usage_load(&c->ns), 0);
		usage_raise(&c->ns, 9);
	}
	assert_int_equal(usage_load(&usage_gpu(&e->t, gpu_a, is_gpu_kept, &kept)->ns), 5);
}

/* The time in which the GPU had work. */
static uint64_t sum_busy_ns(const struct usage_accounts *accounts, const struct usage_gpu *b)
{
	uint64_t ns = usage_load(&b->ns);

	for (uint32_t i = 0; i < usage_accounts_touched(accounts); i++) {
		const struct usage_account *a = &accounts->accounts[i];

		if (atomic_load(&a->state) == USAGE_RECORD_USED &&
			!memcmp(a->uuid, b->uuid, sizeof(b->uuid)))
			ns = usage_add(ns, usage_load(&a->charged_ns));
	}
	return ns;
}

/* The busy time has the charges of existing and of removed slices, after a kill at any moment. */
static void busy_time__has_all_charges(void **state)
{
	struct env *e = *state;
	uint8_t kept = 1;

	for (unsigned int step = 0; step < 3; step++) {
		struct usage_account *a = usage_account(&e->t, ID, gpu_a),
				     *o = usage_account(&e->t, OTHER, gpu_a);
		struct usage_gpu *b = usage_gpu(&e->t, gpu_a, is_gpu_kept, &kept);

		usage_raise(&a->charged_ns, 100);
		usage_raise(&o->charged_ns, 7);
		usage_raise(&usage_account(&e->t, ID, gpu_b)->charged_ns, 1000);
		assert_int_equal(sum_busy_ns(&e->t, b), 100 * step + 107);
		a->before = usage_load(&b->ns);
		if (step > 0)
			atomic_store(&a->state, USAGE_RECORD_ENDING);
		if (step > 1)
			atomic_store(&b->ns, a->before + 100);
		if (step == 0)
			usage_account_drop(&e->t, a);
		reopen_accounts(e);
		assert_null(usage_account_find(&e->t, ID, gpu_a));
		assert_int_equal(
			sum_busy_ns(&e->t, usage_gpu(&e->t, gpu_a, is_gpu_kept, &kept)),
			100 * step + 107);
	}
}

/* Account number @i, of a slice of that number. */
static struct usage_account *new_test_account(struct env *e, unsigned int i)
{
	char id[SLICE_ID_MAX];

	(void)snprintf(id, sizeof(id), "%032x", i);
	return usage_account(&e->t, id, gpu_a);
}

static struct usage_client *new_process_client(struct env *e, struct usage_account *a,
	uint64_t serial, uint32_t pid)
{
	return usage_client_new(&e->t, a, serial, 0, pid, 7, NULL);
}

/* Adds as many clients as the account can have, and returns their number. */
static unsigned int fill_account(struct env *e, struct usage_account *a)
{
	static uint64_t serial = 1000;
	unsigned int n = 0;

	for (; new_process_client(e, a, serial, (uint32_t)serial); serial++)
		n++;
	return n;
}

/* The process registers and disconnects again and again. */
static void process__has_a_limited_number_of_waiting_clients(void **state)
{
	struct env *e = *state;
	struct usage_account *a = usage_account(&e->t, ID, gpu_a);
	struct usage_client *client, *kept = new_process_client(e, a, 1, 42),
				     *other = new_process_client(e, a, 2, 43);
	unsigned int n = 0;

	usage_client_attach(&e->t, kept);
	usage_client_detach(&e->t, other);
	for (uint64_t i = 10; i < 10 + 10 * USAGE_CLIENTS_SPARE; i++) {
		client = new_process_client(e, a, i, 42);
		assert_non_null(client);
		usage_client_attach(&e->t, client);
		usage_client_count(client, (const uint64_t[USAGE_COUNTERS]){ 1, 2 });
		usage_client_detach(&e->t, client);
		assert_int_equal(sum_counter(e, USAGE_LAUNCHES), i - 9);
		assert_int_equal(sum_counter(e, USAGE_COPIES), 2 * (i - 9));
	}
	/* The remaining clients are the newest, the attached one, and the one of another process. */
	for (uint32_t i = e->t.first[a - e->t.accounts]; i; i = e->t.next[i - 1])
		n++;
	assert_int_equal(n, USAGE_CLIENTS_SPARE + 2);
	assert_ptr_equal(find_test_client(e, 1), kept);
	assert_ptr_equal(find_test_client(e, 2), other);
	assert_null(find_test_client(e, 10 + 9 * USAGE_CLIENTS_SPARE - 1));
	for (uint64_t i = 10 + 9 * USAGE_CLIENTS_SPARE; i < 10 + 10 * USAGE_CLIENTS_SPARE; i++)
		assert_non_null(find_test_client(e, i));
	reopen_accounts(e);
	assert_int_equal(sum_counter(e, USAGE_LAUNCHES), 10 * USAGE_CLIENTS_SPARE);
	/* A process with the same PID and another start time is another process. */
	client = usage_client_new(&e->t, usage_account(&e->t, ID, gpu_a), 3, 0, 42, 8, NULL);
	assert_non_null(client);
	usage_client_detach(&e->t, client);
	assert_non_null(find_test_client(e, 3));
}

/* The record of the client was ended. The process registers again with a page that has all its counts. */
static void page__counts_from_its_base(void **state)
{
	struct env *e = *state;
	struct usage_account *a = usage_account(&e->t, ID, gpu_a);
	struct usage_client *client = new_test_client(e, 1, 10);

	usage_client_end(&e->t, client);
	client = usage_client_new(&e->t, a, 1, 0, 1, 7,
		(const uint64_t[USAGE_COUNTERS]){ 10, 1, 2, 3, 4, 5 });
	assert_non_null(client);
	usage_client_count(client, (const uint64_t[USAGE_COUNTERS]){ 10, 1, 2, 3, 4, 5 });
	assert_int_equal(sum_counter(e, USAGE_LAUNCHES), 10);
	reopen_accounts(e);
	client = find_test_client(e, 1);
	assert_non_null(client);
	usage_client_count(client, (const uint64_t[USAGE_COUNTERS]){ 12, 0, 2, 3, 4, 6 });
	assert_int_equal(sum_counter(e, USAGE_LAUNCHES), 12);
	assert_int_equal(sum_counter(e, USAGE_COPIES), 1);
	assert_int_equal(sum_counter(e, USAGE_THROTTLE_NS), 6);
	usage_client_end(&e->t, client);
	reopen_accounts(e);
	assert_int_equal(sum_counter(e, USAGE_LAUNCHES), 12);
}

/* Each slice has its quota, however many clients others have. */
static void slice__has_its_quota_of_all_clients(void **state)
{
	struct env *e = *state;
	struct usage_account *a = new_test_account(e, 0), *b;
	struct usage_client *first = new_process_client(e, a, 1, 1);
	const uint8_t uuid[SLICE_UUID_BYTES] = { 77 };
	unsigned int n;

	assert_non_null(first);
	n = 1 + fill_account(e, a);
	assert_int_equal(n, USAGE_CLIENTS_RESERVED + USAGE_CLIENTS_SHARED_SLICE);
	/* On another GPU the slice has a reserve too, but no more of the shared clients. */
	b = usage_account(&e->t, a->slice, uuid);
	assert_int_equal(fill_account(e, b), USAGE_CLIENTS_RESERVED);
	assert_null(new_process_client(e, a, 2, 2));
	usage_client_end(&e->t, first);
	assert_non_null(new_process_client(e, b, 2, 2));
	assert_null(new_process_client(e, a, 3, 3));
	/* Other slices fill their accounts until no shared client is left: each still has its reserve. */
	n += USAGE_CLIENTS_RESERVED;
	for (unsigned int i = 1; i < USAGE_ACCOUNTS_FAIR - 1; i++) {
		unsigned int had = fill_account(e, new_test_account(e, i));

		assert_true(had >= USAGE_CLIENTS_RESERVED);
		n += had;
	}
	assert_int_equal(n, USAGE_CLIENTS_MAX);
	/* The next arbiter finds the same. */
	reopen_accounts(e);
	assert_null(new_process_client(e, new_test_account(e, 0), 4, 4));
	b = new_test_account(e, 7);
	assert_null(new_process_client(e, b, 4, 4));
	usage_client_end(&e->t, &e->t.clients[e->t.first[b - e->t.accounts] - 1]);
	assert_non_null(new_process_client(e, b, 4, 4));
	assert_null(new_process_client(e, b, 5, 5));
	/* There is one more account than there are reserves. */
	b = new_test_account(e, USAGE_ACCOUNTS_FAIR);
	assert_null(new_process_client(e, b, 6, 6));
	usage_account_drop(&e->t, new_test_account(e, 0));
	assert_int_equal(fill_account(e, b),
		USAGE_CLIENTS_RESERVED + USAGE_CLIENTS_SHARED_SLICE - 1);
}

static void accounts__are_limited(void **state)
{
	struct env *e = *state;
	struct usage_account *a = usage_account(&e->t, ID, gpu_a);
	struct usage_client *client = NULL, *first = new_test_client(e, 0, 1);
	unsigned int n = 1;

	for (unsigned int i = 0; n < USAGE_CLIENTS_MAX; i++)
		n += fill_account(e, i ? new_test_account(e, i) : a);
	client = new_process_client(e, a, 1, 1);
	assert_null(client);
	usage_client_end(&e->t, first);
	assert_ptr_equal(new_process_client(e, a, 1, 1), first);
	assert_null(new_process_client(e, new_test_account(e, 10000), 1, 1));
	for (unsigned int i = usage_accounts_touched(&e->t); i < USAGE_ACCOUNTS_MAX; i++) {
		uint8_t uuid[SLICE_UUID_BYTES] = { 9, (uint8_t)(i & 0xff), (uint8_t)(i >> 8) };

		assert_non_null(usage_account(&e->t, OTHER, uuid));
	}
	assert_null(usage_account(&e->t, OTHER, gpu_b));
	usage_account_drop(&e->t, a);
	assert_non_null(usage_account(&e->t, OTHER, gpu_b));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(accounts__survive_a_kill, setup, teardown),
		cmocka_unit_test_setup_teardown(client__continues_from_its_last_counts, setup,
			teardown),
		cmocka_unit_test_setup_teardown(end__in_progress_is_finished_at_the_next_start,
			setup, teardown),
		cmocka_unit_test_setup_teardown(invalid_counts__saturate_at_the_largest_number,
			setup, teardown),
		cmocka_unit_test_setup_teardown(slice__that_is_dropped_frees_its_accounts,
			setup, teardown),
		cmocka_unit_test_setup_teardown(
			client__of_an_account_of_another_slice_is_dropped, setup, teardown),
		cmocka_unit_test_setup_teardown(
			file__is_recreated_after_a_boot_or_a_change_of_format, setup, teardown),
		cmocka_unit_test_setup_teardown(
			busy_time__belongs_to_a_gpu_and_old_gpus_are_replaced, setup, teardown),
		cmocka_unit_test_setup_teardown(busy_time__has_all_charges, setup, teardown),
		cmocka_unit_test_setup_teardown(
			process__has_a_limited_number_of_waiting_clients, setup, teardown),
		cmocka_unit_test_setup_teardown(page__counts_from_its_base, setup, teardown),
		cmocka_unit_test_setup_teardown(slice__has_its_quota_of_all_clients, setup,
			teardown),
		cmocka_unit_test_setup_teardown(accounts__are_limited, setup, teardown),
	};

	return cmocka_run_group_tests_name("usage-accounts", tests, NULL, NULL);
}
