/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Kubernetes objects as far as the stand-in uses them, as plain data: a manifest after the API server's defaulting
 * and validation. Of a container's resources only the extended ones count ("domain/name: integer"); cpu and memory
 * always suffice. Thread: any (pure data).
 */
#include "lib/base/error.h"
#include "lib/base/strv.h"

#include <stdbool.h>
#include <stdint.h>

#define OBJECT_NAME_MAX  253 /* metadata.name: an RFC 1123 subdomain */
#define OBJECT_LABEL_MAX 63  /* one DNS label; the name part of a qualified name */

/* An ordered map of strings: labels, nodeSelector, data. */
struct str_map {
	struct str_pair {
		char *key, *value;
	} * v;
	size_t n;
};

/* Frees all pairs; @m stays, empty. */
void str_map_fini(struct str_map *m);
/* Sets or adds a pair; copies both texts. ERR_NOMEM. */
int str_map_set(struct str_map *m, const char *key, const char *value,
	struct error *err) MUST_USE;
/* Nothing if the key is absent. */
void str_map_remove(struct str_map *m, const char *key);
const char *str_map_get(const struct str_map *m, const char *key); /* borrowed or NULL */

/* True if every pair of @desired is in @have. */
bool str_map_covers(const struct str_map *have, const struct str_map *desired);

struct toleration {
	char *key; /* NULL: every key */
	char *value;
	bool exists;  /* operator Exists; else Equal */
	char *effect; /* NULL: every effect */
};

struct taint {
	char *key, *value, *effect;
};

/* Whether one of the @n tolerations @v matches @t. */
bool taint_tolerated(const struct taint *t, const struct toleration *v, size_t n);

struct quantity {
	char *resource;
	uint32_t n;
};

struct container {
	char *name, *image;
	bool init;    /* an init container */
	bool sidecar; /* init and restartPolicy: Always */
	struct quantity *requests;
	size_t n_requests;
	struct str_map env; /* those with a value; of equal names the last one */
};

/* The spec of a pod. Immutable once created, shared by reference. */
struct pod_spec {
	unsigned refs;
	struct str_map labels;
	struct str_map node_selector;
	struct toleration *tolerations;
	size_t n_tolerations;
	struct container *containers; /* init containers first, in order */
	size_t n_containers;
	bool restart_never; /* restartPolicy: Never */
	char *node_name;    /* spec.nodeName or NULL */
};

/* Adds a reference. Returns @s. */
struct pod_spec *pod_spec_ref(struct pod_spec *s);
struct pod_spec *pod_spec_unref(struct pod_spec *s); /* returns NULL */
DEFINE_CLEANUP(struct pod_spec *, pod_spec_unref)

/*
 * The amount of @resource that the scheduler counts for the pod: the greater of two sums. One is that of app
 * containers and sidecars. The other is that of an ordinary init container and the sidecars before it.
 */
uint64_t pod_spec_request(const struct pod_spec *s, const char *resource);

/* The names of all extended resources that the pod requests, each once, sorted. */
int pod_spec_resources(const struct pod_spec *s, struct strv *ret, struct error *err) MUST_USE;

/* Compares all members but .refs. Containers must have the same order. */
bool pod_spec_equal(const struct pod_spec *a, const struct pod_spec *b);

enum object_kind { OBJECT_POD, OBJECT_DEPLOYMENT, OBJECT_CONFIG_MAP, OBJECT_NAMESPACE };

struct object {
	enum object_kind kind;
	char *name, *namespace_; /* namespace_ is never NULL; "" for a Namespace */
	struct str_map labels;
	uint32_t line, column;
	struct pod_spec *spec;   /* pod, or template of a deployment; else NULL */
	struct str_map selector; /* deployment: matchLabels */
	uint32_t replicas;       /* deployment */
	struct str_map data;     /* config map */
};

/* Frees the members of @o, and drops its reference to the spec. */
void object_fini(struct object *o);
/* "deployment.apps", as kubectl prints it. */
const char *object_kind_arg(enum object_kind kind);

/* Reads "deployment", "deploy", "deployments.apps", "po", ... as kubectl does. */
bool object_kind_parse(const char *text, enum object_kind *ret);

/*
 * "example.com/name" by the API server's rules for extended resources; also the kubelet's check of a plugin's
 * resource name.
 */
bool extended_resource_valid(const char *name);

/* RFC 1123 label (dots = false) or subdomain. */
bool dns_name_valid(const char *name, bool dots);

/* Key and value of a label. */
bool label_key_valid(const char *key);
bool label_value_valid(const char *value);
