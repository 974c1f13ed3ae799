package pgkv

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/greenroomdb/greenroom/kv"
)

// schemaVersion is the version of the tables that this package uses.
const schemaVersion = 4

// migrations lead from one version of the tables to the next, the first from none.
// What is here will not change; what is to change is added.
var migrations = [schemaVersion]string{`
create table kv! (
	key bytea not null,
	rest bytea,
	value bytea not null,
	primary key (key)
) with (
	fillfactor = 90,
	autovacuum_vacuum_scale_factor = 0.02,
	autovacuum_vacuum_threshold = 500,
	autovacuum_vacuum_cost_delay = 0,
	autovacuum_analyze_scale_factor = 0.5,
	toast.autovacuum_vacuum_scale_factor = 0.02,
	toast.autovacuum_vacuum_threshold = 500,
	toast.autovacuum_vacuum_cost_delay = 0
);
alter table kv! alter key set storage plain, alter rest set storage external, alter value set storage external;
comment on table kv! is 'entries of a Greenroom store; rest is the end of a long key';
create table outcome! (
	host bytea not null,
	slot int4 not null,
	number int8 not null,
	applied bool not null,
	at timestamptz not null,
	primary key (host, slot)
) with (fillfactor = 20, autovacuum_vacuum_threshold = 200, autovacuum_vacuum_scale_factor = 0);
comment on table outcome! is 'for each commit under way: whether it has been applied';
create table version! (number int8 not null) with (fillfactor = 20);
insert into version! values(0);
comment on table version! is 'the number of the last transaction, in its versionstamp';
create table touched! (
	number int8 not null,
	lo bytea not null,
	hi bytea not null,
	at timestamptz not null
);
comment on table touched! is 'what transactions have declared to have written';
`, `
create function mutate!(v bytea, op int4, p bytea) returns bytea language plpgsql immutable as $$
declare
	n int4 := octet_length(p);
	carry int4 := 0;
	a int4;
	b int4;
	r int4[];
begin
	if op = 9 then
		return nullif(v, p);
	elsif op = 8 then
		return case when coalesce(octet_length(v), 0) + n > 100000 then v else coalesce(v, '') || p end;
	elsif op = 7 then
		return least(v, p);
	elsif op = 6 then
		return greatest(v, p);
	elsif n = 0 or v is null and op in (1, 5) then
		return p;
	end if;
	v := substring(coalesce(v, '') from 1 for n);
	v := v || decode(repeat('00', n - octet_length(v)), 'hex');
	if op in (4, 5) then
		for i in reverse n - 1 .. 0 loop
			a := get_byte(v, i);
			b := get_byte(p, i);
			if a <> b then
				return case when (a > b) = (op = 4) then v else p end;
			end if;
		end loop;
		return p;
	end if;
	r := array_fill(0, array[n]);
	for i in 0 .. n - 1 loop
		a := get_byte(v, i);
		b := get_byte(p, i);
		if op = 0 then
			carry := carry + a + b;
			r[i + 1] := carry & 255;
			carry := carry >> 8;
		elsif op = 1 then
			r[i + 1] := a & b;
		elsif op = 2 then
			r[i + 1] := a | b;
		elsif op = 3 then
			r[i + 1] := a # b;
		else
			raise 'greenroom: no operation has the number %', op;
		end if;
	end loop;
	return (select string_agg(set_byte(decode('00', 'hex'), 0, x), '' order by i) from unnest(r) with ordinality u(x, i));
end $$;
comment on function mutate! is 'what kv.Mutation.Apply makes of a value, NULL for none';
`, `
create or replace function mutate!(v bytea, op int4, p bytea) returns bytea language plpgsql immutable as $$
declare
	n int4 := octet_length(p);
	k int4 := 1;
	none varbit;
	high varbit;
	a varbit;
	b varbit;
	made varbit;
	passed varbit;
begin
	if op = 9 then
		return nullif(v, p);
	elsif op = 8 then
		return case when coalesce(octet_length(v), 0) + n > 100000 then v else coalesce(v, '') || p end;
	elsif op = 7 then
		return least(v, p);
	elsif op = 6 then
		return greatest(v, p);
	elsif op not in (0, 1, 2, 3, 4, 5) then
		raise 'greenroom: no operation has the number %', op;
	elsif n = 0 or v is null and op in (1, 5) then
		return p;
	end if;
	v := substring(coalesce(v, '') from 1 for n);
	v := v || decode(repeat('00', n - octet_length(v)), 'hex');
	if op <> 0 then
		a := ('x' || encode(v, 'hex'))::varbit;
		b := ('x' || encode(p, 'hex'))::varbit;
		if op in (4, 5) then
			-- The highest byte in which they differ decides.
			k := octet_length(rtrim(substring(varbit_send(a # b) from 5), '\x00'));
			if k = 0 then
				return p;
			end if;
			return case when (get_byte(v, k - 1) > get_byte(p, k - 1)) = (op = 4) then v else p end;
		end if;
		a := case op when 1 then a & b when 2 then a | b else a # b end;
		return substring(varbit_send(a) from 5);
	end if;
	-- Big-endian, so that a carry goes to the left. What turns the digits around turns those of
	-- each byte as well.
	high := ('x' || repeat('f0', n))::varbit;
	a := ('x' || reverse(encode(v, 'hex')))::varbit;
	a := ((a & high) >> 4) | ((a << 4) & high);
	b := ('x' || reverse(encode(p, 'hex')))::varbit;
	b := ((b & high) >> 4) | ((b << 4) & high);
	-- Which bits make a carry, and which pass one on: of themselves, then together with
	-- one neighbour, three, seven, …; a step for each bit of the length at most.
	none := a # a;
	made := a & b;
	passed := a # b;
	a := passed;
	while k < 8 * n and passed <> none loop
		made := made | (passed & (made << k));
		passed := passed & (passed << k);
		k := 2 * k;
	end loop;
	a := a # (made << 1);
	a := ((a & high) >> 4) | ((a << 4) & high);
	return decode(reverse(encode(substring(varbit_send(a) from 5), 'hex')), 'hex');
end $$;
update version! set number = (number + {gap} - 1) / {gap} * {gap};
-- What older programs do, one by one, would give out versions twice.
alter table version! add check (number % {gap} = 0);
comment on table version! is 'the version from which on others are given out until the next crash';
create unlogged table counter! (
	one bool primary key default true check (one),
	number int8 not null,
	most int8 not null
) with (fillfactor = 20);
insert into counter!(number, most) select number, number + {gap} from version!;
comment on table counter! is 'the number of the last transaction, in its versionstamp; empty after a crash or a failover';
`, `
create unlogged table incarnation! (
	one bool primary key default true check (one),
	id uuid not null default gen_random_uuid()
);
comment on table incarnation! is 'a random number; empty after a crash or a failover, when what was not on stable storage may be lost';
`}

// prepareSchema makes sure that the store is there, in a version that is known.
func (db *DB) prepareSchema(ctx context.Context) error {
	r := db.retry()
	for {
		err := db.trySchema(ctx)
		if err == nil || !worth(ctx, err) {
			return err
		}
		if err := r.again(ctx, err); err != nil {
			return err
		}
	}
}

func (db *DB) trySchema(outer context.Context) error {
	ctx, cancel := context.WithTimeout(outer, db.opts.Timeout)
	defer cancel()
	c, err := db.dial(ctx)
	if err != nil {
		if outer.Err() != nil {
			return outer.Err()
		}
		return err
	}
	defer c.close()
	version, err := db.version(ctx, c)
	if err == nil && version < schemaVersion {
		switch {
		case db.opts.MustExist && version == 0, db.opts.ReadOnly && version == 0:
			return kv.ErrNoStore
		case db.opts.ReadOnly:
			return fmt.Errorf("%w, and its tables have the older version %d", errReadOnly, version)
		}
		err = db.migrate(ctx, c)
	}
	if err == nil && !db.opts.ReadOnly {
		// What hosts have left that didn't close.
		err = c.simple(ctx, `delete from `+quote(db.target.schema)+`.outcome where at < now() - interval '`+keepRows+`'`)
	}
	return verdict(outer, c, err)
}

// one runs a query without parameters and returns the first column of its only row,
// as text; ok is false when that is NULL or the row is missing.
func (c *conn) one(ctx context.Context, text string) (value string, ok bool, err error) {
	results, err := c.pg.Exec(ctx, text).ReadAll()
	c.look()
	if err != nil {
		return "", false, err
	}
	last := results[len(results)-1]
	if len(last.Rows) == 0 || last.Rows[0][0] == nil {
		return "", false, nil
	}
	return string(last.Rows[0][0]), true, nil
}

// literal makes a text an SQL string.
func literal(text string) string { return "'" + strings.ReplaceAll(text, "'", "''") + "'" }

// version returns the version of the tables, 0 when there are none.
func (db *DB) version(ctx context.Context, c *conn) (int, error) {
	schema := db.target.schema
	// In one query, which sees one state: two hosts may begin at the same time.
	text, found, err := c.one(ctx, `select case
		when to_regclass(`+literal(quote(schema)+".meta")+`) is not null then 'store'
		when exists (select from pg_class where relnamespace = to_regnamespace(`+literal(quote(schema))+`)) then 'other'
		end`)
	switch {
	case err != nil || !found:
		return 0, err
	case text != "store":
		return 0, fmt.Errorf("%w: the schema %s holds other tables", kv.ErrNotAStore, schema)
	}
	text, found, err = c.one(ctx, `select value from `+quote(schema)+`.meta where name = 'version'`)
	switch code := code(err); {
	case code == codeUndefinedTable || code == codeUndefinedColumn:
		return 0, fmt.Errorf("%w: the schema %s holds other tables", kv.ErrNotAStore, schema)
	case err != nil:
		return 0, err
	case !found:
		return 0, fmt.Errorf("%w: the tables have no version", kv.ErrCorrupt)
	}
	n, err := strconv.ParseUint(text, 10, 31)
	switch {
	case err != nil || n == 0:
		return 0, fmt.Errorf("%w: the tables have the version %q", kv.ErrCorrupt, text)
	case n > schemaVersion:
		return 0, &kv.FormatError{What: "PostgreSQL schema", Found: n, Known: schemaVersion}
	}
	return int(n), nil
}

// migrate makes or changes the tables, all at once, while other hosts that would do the
// same wait.
func (db *DB) migrate(ctx context.Context, c *conn) (err error) {
	schema := quote(db.target.schema)
	begin := `begin isolation level read committed read write; select pg_advisory_xact_lock(` +
		strconv.FormatInt(gateID(db.target.schema), 10) + `)`
	if err := c.simple(ctx, begin); err != nil {
		return err
	}
	version, err := db.version(ctx, c) // again: another host may have been faster
	if err != nil {
		return errors.Join(err, c.simple(ctx, `rollback`))
	}
	var script strings.Builder
	if version == 0 {
		exists, _, err := c.one(ctx, `select to_regnamespace(`+literal(schema)+`) is not null`)
		if err != nil {
			return err
		}
		if exists != "t" { // to ask for it takes a right that using it doesn't
			script.WriteString(`create schema ` + schema + `;`)
		}
		script.WriteString(`create table ` + schema + `.meta(name text primary key, value text not null);
			insert into ` + schema + `.meta values('version', '0');`)
	}
	script.WriteString(db.steps(version, schemaVersion) + `; commit`)
	return c.simple(ctx, script.String())
}

// steps returns the statements that lead from one version of the tables to another.
func (db *DB) steps(from, to int) string {
	schema := quote(db.target.schema)
	names := strings.NewReplacer("kv!", schema+".kv", "outcome!", schema+".outcome",
		"version!", schema+".version", "touched!", schema+".touched", "mutate!", schema+".mutate", "counter!", schema+".counter", "incarnation!", schema+".incarnation", "{gap}", fmt.Sprint(versionGap))
	return names.Replace(strings.Join(migrations[from:to], "")) +
		fmt.Sprintf(`update %s.meta set value = '%d' where name = 'version'`, schema, to)
}

// Drop removes the store at an address with all that is in it, and its schema unless
// that holds something else. The store must not be open: Drop waits for its hosts, as ctx
// allows. If the store doesn't exist the error is kv.ErrNoStore; the other errors are
// those of Open.
func Drop(ctx context.Context, url string) error {
	t, o, err := parse(url, (&Options{MustExist: true}).orDefault(), nil)
	if err != nil {
		return err
	}
	db := &DB{opts: o, target: t, sql: newStatements(t.schema)}
	db.life.init()
	return wrap("drop "+t.String(), db.drop(ctx))
}

func (db *DB) drop(ctx context.Context) error {
	c, err := db.dial(ctx)
	if err != nil {
		return err
	}
	defer c.close()
	version, err := db.version(ctx, c)
	if err == nil && version == 0 {
		err = kv.ErrNoStore
	}
	if err == nil {
		schema := quote(db.target.schema)
		err = c.simple(ctx, strings.NewReplacer("{schema}", schema).Replace(
			`begin; drop function if exists {schema}.mutate; drop table {schema}.kv, {schema}.outcome, {schema}.version, {schema}.touched, {schema}.meta; drop table if exists {schema}.counter, {schema}.incarnation; commit`))
		if err == nil {
			err = c.simple(ctx, `drop schema `+schema)
			if code(err) == codeDependent {
				err = nil // other tables are in it
			}
		}
	}
	return verdict(ctx, c, err)
}
