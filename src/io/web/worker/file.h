/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What the server keeps from files that others replace: the token, and the certificate with its
 * key. Once read, the last good content stays in force whatever becomes of the file.
 * Thread: the one of the process.
 */
#include "lib/base/buf.h"
#include "lib/base/error.h"
#include "lib/base/stamp.h"

#include <gnutls/abstract.h>
#include <gnutls/gnutls.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define WEB_TOKEN_MAX 4096 /* bytes */

/* For CLEANUP: of a secret, nothing stays in memory. */
void web_forget_buf(struct buf *b);

struct web_token {
	const char *path; /* NULL: no token is asked for */
	char *text;
	size_t len;
	struct file_stamp stamp;
	bool failed; /* the file could not be read last time: it is tried again */
};

/* Reads the token if its file has changed; on an error the last one stays. */
int web_token_refresh(struct web_token *t, struct error *err) MUST_USE;
/* In a time that does not tell how much of it is right. */
bool web_token_is(const struct web_token *t, const char *text, size_t len);
void web_token_fini(struct web_token *t);

struct web_pair; /* a certificate chain and its key */

struct web_tls {
	const char *cert_path, *key_path; /* NULL: no TLS */
	struct web_pair *pair;
	struct web_pair *retired; /* handshakes may be using them */
	struct file_stamp cert_stamp, key_stamp;
	bool failed;
};

/*
 * Reads certificate and key if one has changed; on an error the last stay. @last_serial: of the
 * youngest connection, for what is retired.
 */
int web_tls_refresh(struct web_tls *t, uint64_t last_serial, struct error *err) MUST_USE;
/* Lets go of pairs that no connection from @oldest_serial on can be using. */
void web_tls_drop(struct web_tls *t, uint64_t oldest_serial);
void web_tls_fini(struct web_tls *t);

/* GnuTLS hands its callback nothing of ours: whose pair it takes on this thread. */
void web_tls_use(const struct web_tls *t);
int web_tls_retrieve(gnutls_session_t session, const gnutls_datum_t *authorities,
	int n_authorities, const gnutls_pk_algorithm_t *algorithms, int n_algorithms,
	gnutls_pcert_st **chain, unsigned *n_chain, gnutls_privkey_t *key);
