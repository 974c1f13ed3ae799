package pgkv

import (
	"cmp"
	"fmt"
	"maps"
	"net"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

const (
	defaultSchema  = "greenroom"
	connectTimeout = 5 * time.Second
	maxPool        = 10_000
)

// parse takes an address apart. given are the options as the caller has them: what
// is 0 there, the address may say. Whatever is wrong, the error doesn't quote the
// address, which may hold a password, also where none should be.
func parse(address string, o Options, given *Options) (*target, Options, error) {
	if !strings.HasPrefix(address, "postgres://") && !strings.HasPrefix(address, "postgresql://") {
		return nil, o, fmt.Errorf("%w: it doesn't begin with postgres://", ErrURL)
	}
	base, rawQuery, _ := strings.Cut(address, "?")
	q, err := url.ParseQuery(rawQuery)
	if err != nil {
		return nil, o, fmt.Errorf("%w: its parameters are not escaped as in a URL", ErrURL)
	}
	t := &target{schema: defaultSchema}
	if q.Has("schema") {
		t.schema = q.Get("schema")
	}
	// PostgreSQL cuts longer names to 63 bytes, where they would collide.
	if t.schema == "" || len(t.schema) > 63 || strings.ContainsRune(t.schema, 0) || strings.HasPrefix(t.schema, "pg_") {
		return nil, o, fmt.Errorf("%w: no schema can have that name", ErrURL)
	}
	if given == nil {
		given = &Options{}
	}
	for _, p := range []struct {
		name  string
		given int
		field *int
	}{{"calls", given.Calls, &o.Calls}, {"pins", given.Pins, &o.Pins}} {
		if !q.Has(p.name) {
			continue
		}
		n, err := strconv.Atoi(q.Get(p.name))
		if err != nil || n < 1 || n > maxPool {
			return nil, o, fmt.Errorf("%w: %s must be a number from 1 to %d", ErrURL, p.name, maxPool)
		}
		if p.given <= 0 {
			*p.field = n
		}
	}
	if q.Has("retry") {
		d, err := time.ParseDuration(q.Get("retry"))
		if err != nil || d < 0 {
			return nil, o, fmt.Errorf("%w: retry must be a duration such as 5s", ErrURL)
		}
		if given.RetryFor == 0 {
			o.RetryFor = cmp.Or(d, -1)
		}
	}
	attrs := q.Has("target_session_attrs")
	for _, own := range []string{"schema", "calls", "pins", "retry"} {
		q.Del(own)
	}
	if len(q) > 0 {
		base += "?" + q.Encode()
	}
	if t.config, err = pgconn.ParseConfig(base); err != nil {
		return nil, o, fmt.Errorf("%w: a part of it is not understood", ErrURL)
	}
	// A single server may be a standby if nothing is to be written; among several servers the
	// one with the newest state is wanted even then.
	if !attrs && (!o.ReadOnly || strings.Contains(base, ",")) {
		t.config.ValidateConnect = pgconn.ValidateConnectTargetSessionAttrsReadWrite
	}
	t.configure()
	return t, o, nil
}

// parameters are settings of every session. The planner must never choose a plan
// that reads more of the table than what is asked for, whatever its statistics say
// of a table that is empty or new; and as the statements are all of one row or one
// range, no plan is better for some parameters than for others.
// https://www.postgresql.org/docs/15/runtime-config.html
var parameters = map[string]string{
	"plan_cache_mode":     "force_generic_plan",
	"enable_seqscan":      "off",
	"enable_bitmapscan":   "off",
	"jit":                 "off",
	"statement_timeout":   "0",
	"lock_timeout":        "0",
	"client_min_messages": "warning",
	"bytea_output":        "hex",
	// Of a host that is gone nothing may stay: no lock, no snapshot that keeps old
	// rows alive.
	"client_connection_check_interval":    "5s",
	"idle_in_transaction_session_timeout": "15min",
	"tcp_keepalives_idle":                 "5",
	"tcp_keepalives_interval":             "3",
	"tcp_keepalives_count":                "4",
}

// configure sets up what every connection has in common.
func (t *target) configure() {
	c := t.config
	if c.ConnectTimeout <= 0 {
		c.ConnectTimeout = connectTimeout
	}
	dialer := net.Dialer{
		Timeout:         c.ConnectTimeout,
		KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: 5 * time.Second, Interval: 3 * time.Second, Count: 4},
	}
	c.DialFunc = dialer.DialContext
	maps.Copy(c.RuntimeParams, parameters)
	if c.RuntimeParams["application_name"] == "" {
		c.RuntimeParams["application_name"] = "greenroom"
	}
	c.OnNotice = func(pg *pgconn.PgConn, n *pgconn.Notice) {
		if conn, ok := pg.CustomData()[connKey].(*conn); ok && n.Severity == "WARNING" {
			conn.warned = true
		}
	}
}
