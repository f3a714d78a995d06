/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Contents of files that other programs replace: the token, and the certificate with its key. Once read, the
 * last valid content stays in force whatever becomes of the file.
 * Thread: the only one of the process.
 */
#include "lib/base/buf.h"
#include "lib/base/error.h"
#include "lib/base/paths.h"

#include <gnutls/abstract.h>
#include <gnutls/gnutls.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define WEB_TOKEN_MAX 4096 /* bytes */

/* For CLEANUP: wipes a secret from memory. */
void web_forget_buf(struct buf *b);

struct web_token {
	const char *path; /* NULL: no token is required */
	char *text;
	size_t len;
	struct file_stamp stamp;
	bool failed; /* the last read failed: retry */
};

/* Reads the token if its file has changed. On an error the last token stays. */
int web_token_refresh(struct web_token *t, struct error *err) MUST_USE;
/* Whether @text is the token. The time it takes does not show how much of the text is right. */
bool web_token_is(const struct web_token *t, const char *text, size_t len);
void web_token_fini(struct web_token *t); /* wipes and frees the token */

struct web_pair; /* a certificate chain and its key */

struct web_tls {
	const char *cert_path, *key_path; /* NULL: no TLS */
	struct web_pair *pair;
	struct web_pair *retired; /* handshakes may still use them */
	struct file_stamp cert_stamp, key_stamp;
	bool failed;
};

/* Reads certificate and key if one has changed. On an error the last pair stays. @last_serial: of the newest
 * connection, for the pair that is replaced. */
int web_tls_refresh(struct web_tls *t, uint64_t last_serial, struct error *err) MUST_USE;
/* Frees the replaced pairs that no connection from @oldest_serial on can use. */
void web_tls_drop(struct web_tls *t, uint64_t oldest_serial);
void web_tls_fini(struct web_tls *t); /* frees all pairs: no handshake may use them any more */

/* Sets whose pair web_tls_retrieve() returns on this thread: GnuTLS passes its callback no argument of the
 * caller's. */
void web_tls_use(const struct web_tls *t);
/* GnuTLS's callback for the server's certificate. All results are borrowed. < 0: there is no pair. */
int web_tls_retrieve(gnutls_session_t session, const gnutls_datum_t *authorities,
	int n_authorities, const gnutls_pk_algorithm_t *algorithms, int n_algorithms,
	gnutls_pcert_st **chain, unsigned *n_chain, gnutls_privkey_t *key);
