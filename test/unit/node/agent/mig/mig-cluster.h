/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A MIG manager with an API server: our Node "n-1", which patches change and a watch reports, its pods, and
 * the ConfigMap "layouts" of the namespace "gpu".
 */
#include "unit/io/kube-api/api-env.h"
#include "unit/node/agent/mig/mig-env.h"

#define DEPLOY "nvidia.com/gpu.deploy."
#define PAUSED "paused-for-mig-change"

/* A pod of the namespace "ops" that is there while the Node has this deploy label. */
#define POD(name, label)                                        \
	"{\"metadata\":{\"namespace\":\"ops\",\"name\":\"" name \
	"\"},\"spec\":{\"nodeSelector\":{"                      \
	"\"" DEPLOY label "\":\"true\"}}}"

struct mig_cluster {
	struct mig_env *m;
	struct env *stub;
	struct step step;
	char *answer;
	json_t *node, *map;         /* NULL: there is none */
	json_t *pods;               /* array */
	struct stub_conn *watch[2]; /* of the Node, of the ConfigMap; NULL: not asked for yet */
	json_t *sent[2];            /* what the watch reported last; NULL: nothing */
	unsigned version;
	uv_timer_t echo;

	bool quiet; /* the watch of the Node reports nothing */
	unsigned patch_status, pods_status, delete_status; /* answers of failure; 0: none */
	unsigned patches, failures, lists;                 /* of the pods */
	void (*on_delete)(
		struct mig_cluster *c); /* called while a DELETE is under way; NULL: none */
	char states[512];               /* "pending success ": those of the label */
	char deleted[512];              /* pods, a blank after each */
};

int mig_cluster_setup(void **state);
int mig_cluster_teardown(void **state);
struct mig_cluster *mig_cluster_another(void **state);

/* The Node, with these labels and annotations: "key=value key=value". */
void mig_cluster_node(struct mig_cluster *c, const char *labels, const char *annotations);
void mig_cluster_delete_node(struct mig_cluster *c);
void mig_cluster_label(struct mig_cluster *c, const char *key,
	const char *value);                                                 /* NULL: none */
const char *mig_cluster_get(const struct mig_cluster *c, const char *key);  /* "": none */
const char *mig_cluster_note(const struct mig_cluster *c, const char *key); /* an annotation */
void mig_cluster_pods(struct mig_cluster *c, const char *items);
void mig_cluster_map(struct mig_cluster *c, const char *entry, const char *text);
void mig_cluster_delete_map(struct mig_cluster *c);

void mig_cluster_begin(struct mig_cluster *c);
void mig_cluster_run(
	struct mig_cluster *c); /* and until the attempt has ended, and the Node shows it */
void mig_cluster_wait(struct mig_cluster *c, const char *state);

#define CLUSTER_TEST(f) \
	cmocka_unit_test_setup_teardown(f, mig_cluster_setup, mig_cluster_teardown)
