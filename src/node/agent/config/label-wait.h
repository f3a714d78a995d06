/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The label of the agent's Node, which chooses among named configs, and how long the agent waits for this label.
 * Pure: the caller passes the time and the Node in, and each function returns the action to take.
 *
 *	            +-----------+  saved config  +-------------+  other Node, no label   +----------------+
 *	  start --> |  WAITING  | -------------> |    KNOWN    | ----------------------> |    NEW_NODE    |
 *	            +-----------+  Node          |             | <---------------------- | (value of the  |
 *	                  | 30 s, or 10 s of     +-------------+  Node with a label, or  |  Node before)  |
 *	                  | a verdict,                 ^          30 s without           +----------------+
 *	                  v or no API server           | Node
 *	            +-----------+  no Node   +---------+-+
 *	            | GIVEN_UP  | ---------> |  NO_NODE  |   NO_NODE returns to GIVEN_UP when the server no longer
 *	            +-----------+ <--------- +-----------+   reports so; from both a Node's answer leads to KNOWN
 *
 *	  start without an API server --> UNWANTED. Only the saved config of a ConfigMap leads from there, to KNOWN.
 *
 * Verdict. A verdict is an answer after which no label can be expected soon: the Node does not exist, the agent
 * has no right to read it, or no process listens at the server's address. A verdict must last 10 s, because an
 * API server that restarts answers like this for a moment. Silence is no verdict.
 *
 * End of the wait. A directory is then used without a label. A ConfigMap comes from the server that also knows
 * the label, so time alone is no reason there. The server may answer for the ConfigMap a moment before the Node.
 * The default would then be in force in between. For a ConfigMap only NO_NODE counts.
 *
 * If the label is known but the ConfigMap is not, no config is decided and the wait goes on. After the wait, the
 * agent treats an unknown ConfigMap as absent.
 * Thread: any (pure).
 */
#include "node/agent/api/node-object.h"
#include "model/config/choice.h"

/* Without a saved config. 30 s are three attempts to connect to a silent server, as after a reboot. */
#define LABEL_WAIT_NS    (30 * NS_PER_SEC)
#define LABEL_VERDICT_NS (10 * NS_PER_SEC)

enum label_state {
	LABEL_UNWANTED, /* no API server, so no label will come */
	LABEL_WAITING,
	LABEL_GIVEN_UP, /* the wait is over, the label is not known */
	LABEL_NO_NODE,  /* the wait is over, and the Node is absent or not readable */
	LABEL_KNOWN,    /* .value is the label of the Node, or of an earlier run */
	LABEL_NEW_NODE, /* .value is the label of a former Node; the present one has no label yet */
};

/* What the API server answers about the Node now. */
enum label_answer {
	LABEL_SILENT, /* not asked yet, or no answer */
	LABEL_SEEN,   /* the Node as the server has it now */
	LABEL_ABSENT, /* no such Node, or no right to read it */
	LABEL_DOWN,   /* no process listens at the server's address */
};

/* The action to take. */
enum label_act {
	LABEL_NOTHING,
	LABEL_TICK,       /* start calling label_wait_tick() periodically */
	LABEL_STOP,       /* stop calling label_wait_tick() */
	LABEL_CHOOSE,     /* choose again: the label has changed, or the wait is over */
	LABEL_DO_WITHOUT, /* choose without the label that the agent waited for */
};

struct label_wait {
	enum label_state state;
	char value[CONFIG_ENTRY_NAME_MAX]; /* "": none, or not known */
	char node_uid[64];                 /* of the Node that answered last; "": none did */
	bool map;                          /* the configs come from the API server, too */
	bool over;                         /* no more waiting for the API server */
	uint64_t since_ns;
	uint64_t verdict_since_ns; /* 0: no verdict now */
	/* error text of a Node object before its first request */
	char not_asked[ERROR_MSG_MAX];
};

/* @wanted: there is or will be an API server to ask for the label. Returns LABEL_TICK or LABEL_NOTHING. */
enum label_act label_wait_start(struct label_wait *w, bool wanted, bool map, uint64_t now_ns);

/*
 * Restores the label of an earlier run, of the Node @node_uid. The label counts until a Node answers with
 * another one.
 */
void label_wait_restore(struct label_wait *w, const char *value, const char *node_uid);

/* From now on the server is asked for the Node. @trouble is the Node object's error until the first answer. */
void label_wait_asked(struct label_wait *w, const struct error *trouble);

/*
 * The Node @uid exists and has this label; NULL: no label. LABEL_TICK: the Node is new, and gets time for its
 * label.
 */
enum label_act label_wait_node(struct label_wait *w, const char *uid, const char *value,
	uint64_t now_ns);

/* There will be no API server. */
void label_wait_set_no_api(struct label_wait *w);

/* The answer that @state and @trouble of a Node object amount to. */
enum label_answer label_wait_answer(const struct label_wait *w, enum node_object_state state,
	const struct error *trouble);

/* Time has passed. @decided: a config is in force. */
enum label_act label_wait_tick(struct label_wait *w, enum label_answer answer, bool decided,
	uint64_t now_ns);

/* Whether the agent may choose by .value. */
bool label_wait_known(const struct label_wait *w);
