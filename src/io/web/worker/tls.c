/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The certificate and its key: reads and checks a replaced pair, and keeps the old one while connections use
 * it (file.h).
 */
#include "lib/base/fd.h"
#include "io/web/worker/file.h"

#include <string.h>

#define PEM_MAX   (256U << 10) /* bytes of a file */
#define CHAIN_MAX 16

struct web_pair {
	gnutls_pcert_st chain[CHAIN_MAX];
	unsigned n;
	gnutls_privkey_t key;
	uint64_t last_serial; /* once replaced: no newer connection has used the pair */
	struct web_pair *next;
};

static struct web_pair *pair_free(struct web_pair *p)
{
	if (!p)
		return NULL;
	for (unsigned i = 0; i < p->n; i++)
		gnutls_pcert_deinit(&p->chain[i]);
	if (p->key)
		gnutls_privkey_deinit(p->key);
	free(p);
	return NULL;
}

DEFINE_CLEANUP(struct web_pair *, pair_free)

static void free_credentials(gnutls_certificate_credentials_t *c)
{
	if (*c)
		gnutls_certificate_free_credentials(*c);
}

static gnutls_datum_t get_gnutls_datum(const struct buf *b)
{
	/* The const is cast away for the type only. */
	return (gnutls_datum_t){ .data = (unsigned char *)(uintptr_t)buf_str(b),
		.size = (unsigned)b->len };
}

/* Checks what a handshake would only find out later: that both parse and belong together. */
static int check_pair(const gnutls_datum_t *cert, const gnutls_datum_t *key)
{
	CLEANUP(free_credentials) gnutls_certificate_credentials_t c = NULL;
	int r = gnutls_certificate_allocate_credentials(&c);

	return r < 0 ? r
		     : gnutls_certificate_set_x509_key_mem(c, cert, key, GNUTLS_X509_FMT_PEM);
}

static int import_pair(struct web_pair *p, const gnutls_datum_t *cert,
	const gnutls_datum_t *key)
{
	unsigned n = CHAIN_MAX;
	int r = check_pair(cert, key);

	if (r >= 0)
		r = gnutls_pcert_list_import_x509_raw(p->chain, &n, cert, GNUTLS_X509_FMT_PEM,
			0);
	if (r < 0)
		return r;
	p->n = n;
	r = gnutls_privkey_init(&p->key);
	if (r >= 0)
		r = gnutls_privkey_import_x509_raw(p->key, key, GNUTLS_X509_FMT_PEM, NULL, 0);
	return r;
}

static int pair_load(const struct web_tls *t, struct web_pair **ret, struct error *err)
{
	CLEANUP(web_forget_buf) struct buf key_pem = BUF_INIT(PEM_MAX);
	CLEANUP(buf_fini) struct buf cert_pem = BUF_INIT(PEM_MAX);
	CLEANUP(pair_freep) struct web_pair *p = NULL;
	gnutls_datum_t cert, key;
	int r;

	if (file_read(t->cert_path, &cert_pem, err) < 0 ||
		file_read(t->key_path, &key_pem, err) < 0)
		return -1;
	p = calloc(1, sizeof(*p));
	if (!p)
		return error_nomem(err);
	cert = get_gnutls_datum(&cert_pem);
	key = get_gnutls_datum(&key_pem);
	r = import_pair(p, &cert, &key);
	if (r < 0)
		return error_set(err, ERR_INVALID,
			"certificate '%s' with key '%s': expected a PEM chain of at most %u and "
			"the key of its first, without password: %s",
			t->cert_path, t->key_path, CHAIN_MAX, gnutls_strerror(r));
	*ret = STEAL_PTR(p);
	return 0;
}

int web_tls_refresh(struct web_tls *t, uint64_t last_serial, struct error *err)
{
	struct file_stamp cert, key;
	struct web_pair *p = NULL;

	if (!t->cert_path)
		return 0;
	cert = file_stamp_of(t->cert_path);
	key = file_stamp_of(t->key_path);
	if (t->pair && !t->failed && file_stamp_same(&cert, &t->cert_stamp) &&
		file_stamp_same(&key, &t->key_stamp))
		return 0;
	t->cert_stamp = cert;
	t->key_stamp = key;
	t->failed = true;
	if (pair_load(t, &p, err) < 0)
		return -1;
	t->failed = false;
	if (t->pair) {
		t->pair->last_serial = last_serial;
		t->pair->next = t->retired;
		t->retired = t->pair;
	}
	t->pair = p;
	return 0;
}

void web_tls_drop(struct web_tls *t, uint64_t oldest_serial)
{
	for (struct web_pair **at = &t->retired; *at;) {
		struct web_pair *p = *at;

		if (p->last_serial >= oldest_serial) {
			at = &p->next;
			continue;
		}
		*at = p->next;
		(void)pair_free(p);
	}
}

void web_tls_fini(struct web_tls *t)
{
	web_tls_drop(t, UINT64_MAX);
	t->pair = pair_free(t->pair);
}

static _Thread_local const struct web_tls *in_use;

void web_tls_use(const struct web_tls *t)
{
	in_use = t;
}

int web_tls_retrieve(gnutls_session_t session, const gnutls_datum_t *authorities,
	int n_authorities, const gnutls_pk_algorithm_t *algorithms, int n_algorithms,
	gnutls_pcert_st **chain, unsigned *n_chain, gnutls_privkey_t *key)
{
	(void)session;
	(void)authorities;
	(void)n_authorities;
	(void)algorithms;
	(void)n_algorithms;
	if (!in_use || !in_use->pair)
		return -1;
	*chain = in_use->pair->chain;
	*n_chain = in_use->pair->n;
	*key = in_use->pair->key;
	return 0;
}
