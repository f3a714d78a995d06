/* SPDX-License-Identifier: Apache-2.0 */
#include "fuzz/fuzz.h"

#include "node/arbiter/scheduler/usage-accounts/usage-accounts.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define ID           "0123456789abcdef0123456789abcdef"
#define FILE_CLIENTS 4
#define KEPT         64 /* records: more than are ever written, as the first free one is taken */

static const uint8_t uuid[SLICE_UUID_BYTES] = { 1 };

static void open_fuzz_accounts(struct usage_accounts *accounts, const char *path)
{
	if (usage_accounts_open(accounts, path, "boot", NULL) < 0)
		__builtin_trap();
}

/* The counters of the accounts must add up, and the records must be removable. */
static void use(struct usage_accounts *accounts)
{
	struct usage_account *a = usage_account(accounts, ID, uuid);
	uint64_t before[USAGE_COUNTERS], after[USAGE_COUNTERS];
	struct usage_client *client =
		a ? usage_client_new(accounts, a, 99, 0, 1, 1, NULL) : NULL;

	/* usage_client_new() returns NULL where all records are in use. */
	if (!client)
		return;
	usage_account_total(accounts, a, before);
	for (uint64_t i = 0; i < FILE_CLIENTS; i++) {
		struct usage_client *one = usage_client_find(accounts, a, i, 0);

		if (one)
			usage_client_end(accounts, one);
	}
	usage_client_end(accounts, client);
	usage_account_total(accounts, a, after);
	if (memcmp(before, after, sizeof(before)) != 0)
		__builtin_trap();
	usage_account_drop(accounts, a);
	if (usage_account_find(accounts, ID, uuid))
		__builtin_trap();
}

/* A file of one account with clients, made once and restored before each run. In memory, not on a disk: some
 * thousand runs happen in a second. */
static struct {
	char path[32];
	int fd;
	char *at;                        /* mapped */
	size_t bytes, accounts, clients; /* of the file; where records begin */
	char *head, *account, *client;   /* what runs change */
} file;

static char *copy_of(const char *at, size_t len)
{
	char *copy = malloc(len);

	if (!copy)
		__builtin_trap();
	memcpy(copy, at, len);
	return copy;
}

static void make_file(void)
{
	struct usage_account *a;
	struct usage_accounts accounts;

	memcpy(file.path, "/dev/shm/fuzz-usage.XXXXXX", sizeof("/dev/shm/fuzz-usage.XXXXXX"));
	file.fd = mkstemp(file.path);
	if (file.fd < 0)
		__builtin_trap();
	open_fuzz_accounts(&accounts, file.path);
	a = usage_account(&accounts, ID, uuid);
	for (uint64_t i = 0; a && i < FILE_CLIENTS; i++)
		(void)usage_client_new(&accounts, a, i, 0, 1, 1, NULL);
	file.bytes = accounts.file.bytes;
	file.accounts = (size_t)((char *)accounts.accounts - (char *)accounts.head);
	file.clients = (size_t)((char *)accounts.clients - (char *)accounts.head);
	file.head = copy_of((char *)accounts.head, file.accounts);
	file.account = copy_of((char *)accounts.accounts, KEPT * sizeof(*accounts.accounts));
	file.client = copy_of((char *)accounts.clients, KEPT * sizeof(*accounts.clients));
	usage_accounts_close(&accounts);
	file.at = mmap(NULL, file.bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file.fd, 0);
	if (file.at == MAP_FAILED)
		__builtin_trap();
}

static void reset_file(void)
{
	memcpy(file.at, file.head, file.accounts);
	memcpy(file.at + file.accounts, file.account, KEPT * sizeof(struct usage_account));
	memcpy(file.at + file.clients, file.client, KEPT * sizeof(struct usage_client));
}

static void remove_file(void)
{
	(void)unlink(file.path);
}

/*
 * A usage accounts file that another program has written to. The input is a row of records: three bytes for the
 * place (in the head, the accounts, the clients), one byte for the length, the body.
 */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct usage_accounts accounts;

	if (!file.at) {
		make_file();
		(void)atexit(remove_file);
	}
	reset_file();
	while (size >= 4) {
		size_t at = data[1] | (size_t)data[2] << 8, len = data[3];
		char *base = file.at + (data[0] % 3 == 0          ? 0
					       : data[0] % 3 == 1 ? file.accounts
								  : file.clients);

		at %= data[0] % 3 == 0   ? 8192
		      : data[0] % 3 == 1 ? sizeof(struct usage_account)
					 : FILE_CLIENTS * sizeof(struct usage_client);
		data += 4;
		size -= 4;
		len = len < size ? len : size;
		memcpy(base + at, data, len);
		data += len;
		size -= len;
	}
	open_fuzz_accounts(&accounts, file.path);
	use(&accounts);
	usage_accounts_close(&accounts);
	return 0;
}
