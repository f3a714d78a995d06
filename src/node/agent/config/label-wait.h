/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The label of our Node, which chooses among named configs, and how long the agent waits for it. Pure: the time and
 * the Node come in as arguments, and each function returns the action to take.
 *
 *	            +-----------+  kept config   +-------------+  other Node, no label   +----------------+
 *	  start --> |  WAITING  | -------------> |    KNOWN    | ----------------------> |    NEW_NODE    |
 *	            +-----------+  Node          |             | <---------------------- | (value of the  |
 *	                  | 30 s, or 10 s of     +-------------+  Node with a label, or  |  Node before)  |
 *	                  | a verdict,                 ^          30 s without           +----------------+
 *	                  v or no API server           | Node
 *	            +-----------+  no Node   +---------+-+
 *	            | GIVEN_UP  | ---------> |  NO_NODE  |   NO_NODE goes back to GIVEN_UP when the server no longer
 *	            +-----------+ <--------- +-----------+   says so; from both a Node's answer leads to KNOWN
 *
 *	  start without an API server --> UNWANTED, which only a kept config of a ConfigMap leaves, for KNOWN
 *
 * A verdict is an answer that makes it clear that no label will come soon: there is no such Node, we may not see it,
 * or nobody listens where the server should be. It has to last: an API server that restarts says the like for a
 * moment. Silence is none.
 *
 * When the wait is over a directory is used without a label. A ConfigMap comes from the server that knows the label,
 * so that time alone proves nothing there: the server may answer for the one a moment before the other, and the
 * default would be in force in between. There only NO_NODE counts.
 *
 * The label may be known before the wait is over, and no config decided, as the ConfigMap is not known: then the wait
 * goes on. Once it is over, an unknown ConfigMap is as good as none.
 */
#include "node/agent/api/node-object.h"
#include "model/config/choice.h"

/* With nothing kept from an earlier run: three attempts to connect to a server that is silent, as after a reboot. */
#define LABEL_WAIT_NS    (30 * NS_PER_SEC)
#define LABEL_VERDICT_NS (10 * NS_PER_SEC)

enum label_state {
	LABEL_UNWANTED, /* no API server: nobody will say it */
	LABEL_WAITING,
	LABEL_GIVEN_UP, /* the wait is over, and it is not known */
	LABEL_NO_NODE,  /* likewise, and there is no such Node, or we may not see it */
	LABEL_KNOWN,    /* .value, of the Node or of an earlier run */
	LABEL_NEW_NODE, /* likewise, but of another Node than the one of now, which has none yet */
};

/* What the API server says of our Node now. */
enum label_answer {
	LABEL_SILENT, /* it was not asked yet, or does not answer */
	LABEL_SEEN,   /* there is the Node, as the server has it now */
	LABEL_ABSENT, /* there is none, or we may not see it */
	LABEL_DOWN,   /* nobody listens */
};

/* The action to take. */
enum label_act {
	LABEL_NOTHING,
	LABEL_TICK,       /* call label_wait_tick() again and again */
	LABEL_STOP,       /* no more label_wait_tick() */
	LABEL_CHOOSE,     /* choose again: the label is another one, or the wait is over */
	LABEL_DO_WITHOUT, /* the same, without a label that was waited for */
};

struct label_wait {
	enum label_state state;
	char value[CONFIG_ENTRY_NAME_MAX]; /* "": none, or not known */
	char node_uid[64];                 /* of the Node that last said; "": none did */
	bool map;                          /* the configs come from the API server, too */
	bool over;                         /* no more waiting for the API server */
	uint64_t since_ns;
	uint64_t verdict_since_ns; /* 0: there is none */
	char not_asked
		[ERROR_MSG_MAX]; /* what a Node that was not asked for has for its trouble */
};

/* @wanted: there is an API server, or there will be, to say the label. LABEL_TICK or LABEL_NOTHING. */
enum label_act label_wait_start(struct label_wait *w, bool wanted, bool map, uint64_t now_ns);

/* An earlier run had this label, of that Node. It counts until a Node says another. */
void label_wait_restore(struct label_wait *w, const char *value, const char *node_uid);

/* The server is asked for our Node from now on; @trouble is what stands for its answer until it comes. */
void label_wait_asked(struct label_wait *w, const struct error *trouble);

/* The Node @uid is there, with this label; NULL: without. LABEL_TICK: it is a new one, and is given time. */
enum label_act label_wait_node(struct label_wait *w, const char *uid, const char *value,
	uint64_t now_ns);

/* There will be no API server. */
void label_wait_set_no_api(struct label_wait *w);

/* What @state and @trouble of a node object say. */
enum label_answer label_wait_answer(const struct label_wait *w, enum node_object_state state,
	const struct error *trouble);

/* Some time has passed. @decided: a config is in force. */
enum label_act label_wait_tick(struct label_wait *w, enum label_answer answer, bool decided,
	uint64_t now_ns);

/* Whether .value is what to choose by. */
bool label_wait_known(const struct label_wait *w);
