package pgkv

import (
	"fmt"
	"strings"
)

// OIDs of the types of parameters.
// https://github.com/postgres/postgres/blob/REL_15_STABLE/src/include/catalog/pg_type.dat
const (
	oidBytea      = 17
	oidInt8       = 20
	oidInt4       = 23
	oidByteaArray = 1001
	oidInt8Array  = 1016
)

// A statement is prepared on every connection, if it has a name. Parameters and results are binary.
type statement struct {
	name string
	text string
	oids []uint32
}

// statements are all that is ever asked of a store in one schema.
type statements struct {
	begin, commit, rollback   *statement
	beginRead                 string // begins a transaction and pins its state, in one
	applied, sync             *statement
	check, insert             *statement
	clearRange, clear, set    *statement
	outcome, fence, forget    *statement
	get                       *statement
	page, pageDown            *statement
	group, groupDown          *statement
	ranges                    *statement
	gateShared, gateExclusive *statement
	seen, same, next, touch   *statement
	raise, reserve            *statement
	incarnation, begun        *statement
	mutate, foresee, size     *statement
	stampKey, stampValue      *statement

	all []*statement
}

// quote makes a name an SQL identifier.
func quote(name string) string { return `"` + strings.ReplaceAll(name, `"`, `""`) + `"` }

// newStatements writes the statements for the tables of a schema.
func newStatements(schema string) *statements {
	s := &statements{beginRead: "begin isolation level repeatable read read only; select 1"}
	r := strings.NewReplacer("kv!", quote(schema)+".kv", "outcome!", quote(schema)+".outcome",
		"version!", quote(schema)+".version", "touched!", quote(schema)+".touched", "mutate!", quote(schema)+".mutate", "counter!", quote(schema)+".counter",
		"incarnation!", quote(schema)+".incarnation", "{gap}", fmt.Sprint(versionGap), "{gate}", fmt.Sprint(gateID(schema)), "{prefix}", fmt.Sprint(prefixLen))
	def := func(name, text string, oids ...uint32) *statement {
		st := &statement{text: r.Replace(text), oids: oids}
		if name != "" {
			st.name = "greenroom_" + name
			s.all = append(s.all, st)
		}
		return st
	}
	s.begin = def("begin", `begin isolation level read committed read write`)
	s.commit = def("commit", `commit`)
	s.rollback = def("rollback", `rollback`)
	s.applied = def("applied", `select set_config('synchronous_commit', 'off', true)`)
	// A transaction waits for stable storage only if it has written something before its
	// COMMIT; to have a number is not enough.
	// https://github.com/postgres/postgres/blob/REL_15_STABLE/src/backend/access/transam/xact.c (RecordTransactionCommit)
	s.sync = def("sync", `select pg_logical_emit_message(true, 'greenroom', '')`)
	s.incarnation = def("incarnation", `select id from incarnation!`)
	s.begun = def("begun", `insert into incarnation! default values on conflict do nothing`)
	s.gateShared = def("gate_shared", `select pg_advisory_xact_lock_shared({gate})`)
	s.gateExclusive = def("gate_exclusive", `select pg_advisory_xact_lock({gate})`)
	s.defineWrites(def)
	s.defineReads(def)
	s.defineRanges(def)
	s.defineTransactions(def)
	return s
}

type definer func(name, text string, oids ...uint32) *statement

// defineWrites defines the parts of a commit. A part that finds that the commit must
// not be makes the transaction fail by a cast that can't be done: that way COMMIT can
// be sent together with what it depends on.
func (s *statements) defineWrites(def definer) {
	// Keys and the values that they must have. Rows are locked in the order of their
	// keys, and the locked rows are the ones compared: at READ COMMITTED a row that
	// another transaction was changing is read again once it is locked.
	s.check = def("check", `
		select case when count(*) > 0 then ('`+failedCheck+`' || min(c.i))::int end
		from unnest($1::bytea[], $2::bytea[]) with ordinality c(k, v, i)
		left join (select key, value from kv! where key = any($1::bytea[]) order by key for no key update) l on l.key = c.k
		where l.value is distinct from c.v`, oidByteaArray, oidByteaArray)
	// Keys that must be absent. An absent key can't be locked; one that was just inserted
	// can, and a key that is there is a unique violation.
	s.insert = def("insert", `
		insert into kv!(key, rest, value) select * from unnest($1::bytea[], $2::bytea[], $3::bytea[])`,
		oidByteaArray, oidByteaArray, oidByteaArray)
	// A range of keys as they are stored; of whole keys for those that are not; and what
	// stays because the commit sets it anyway: a row that is overwritten keeps its place,
	// so that a transaction that waits for its lock finds it (as a subquery that is hashed:
	// there may be many). Each range is a request of its own: in a join the planner may well
	// read the table first.
	s.clearRange = def("clear_range", `
		delete from kv! where key >= $1 and key < $2
		and (rest is null or substring(key from 1 for {prefix}) || rest >= $3 and substring(key from 1 for {prefix}) || rest < $4)
		and key not in (select unnest($5::bytea[]))`,
		oidBytea, oidBytea, oidBytea, oidBytea, oidByteaArray)
	s.clear = def("clear", `delete from kv! where key = any($1::bytea[])`, oidByteaArray)
	s.set = def("set", `
		insert into kv!(key, rest, value) select * from unnest($1::bytea[], $2::bytea[], $3::bytea[])
		on conflict (key) do update set value = excluded.value`, oidByteaArray, oidByteaArray, oidByteaArray)

	s.outcome = def("outcome", `
		with u as (
			insert into outcome! as o(host, slot, number, applied, at) values($1, $2, $3, true, now())
			on conflict (host, slot) do update set number = excluded.number, applied = true, at = now()
			where o.number < excluded.number returning 1)
		select case when count(*) = 0 then ('`+fencedOff+`' || count(*))::int end from u`, oidBytea, oidInt4, oidInt8)
	// It always writes, so that its own commit waits until that of an older one that
	// it finds is on stable storage.
	s.fence = def("fence", `
		insert into outcome! as o(host, slot, number, applied, at) values($1, $2, $3, false, now())
		on conflict (host, slot) do update set number = greatest(o.number, excluded.number),
			applied = o.applied and o.number >= excluded.number, at = now()
		returning number, applied`, oidBytea, oidInt4, oidInt8)
	s.forget = def("forget", `delete from outcome! where host = $1`, oidBytea)
}

const (
	failedCheck = "greenroom check "
	fencedOff   = "greenroom fence "
	failedRead  = "greenroom read "
	noVersion   = "greenroom version "
)

// defineReads defines the reads.
func (s *statements) defineReads(def definer) {
	s.get = def("get", `select value from kv! where key = $1`, oidBytea)
	// A page ends after a number of rows, or where those before a row have a number of
	// bytes: the length of a value that is stored apart is known without reading it.
	page := func(where, order string) string {
		return `select key, rest, value from (
			select key, rest, value, sum(octet_length(value)) over (order by ` + order + ` rows unbounded preceding) - octet_length(value) as before
			from kv! where ` + where + ` order by ` + order + ` limit $3) p
			where before < $4`
	}
	inside := `key >= $1 and key < $2`
	s.page = def("page", page(inside, "key"), oidBytea, oidBytea, oidInt8, oidInt8)
	s.pageDown = def("page_down", page(inside, "key desc"), oidBytea, oidBytea, oidInt8, oidInt8)
	// One group of long keys; see surrogate.go.
	inGroup := inside + ` and rest >= $5 and ($6::bytea is null or rest < $6)`
	s.group = def("group", page(inGroup, "rest"), oidBytea, oidBytea, oidInt8, oidInt8, oidBytea, oidBytea)
	s.groupDown = def("group_down", page(inGroup, "rest desc"), oidBytea, oidBytea, oidInt8, oidInt8, oidBytea, oidBytea)
}

// defineRanges defines the page of several ranges, each of which has a number of rows of
// its own, negative in descending order.
func (s *statements) defineRanges(def definer) {
	rows := func(sign, order string) string {
		return `(select key, rest, value, row_number() over (order by ` + order + `) as n from kv!
			where ` + sign + ` and key >= r.lo and key < r.hi order by ` + order + ` limit abs(r.most))`
	}
	s.ranges = def("ranges", `select i, key, rest, value from (
		select r.i, e.n, key, rest, value, sum(octet_length(value)) over (order by r.i, e.n rows unbounded preceding) - octet_length(value) as before
		from unnest($1::bytea[], $2::bytea[], $3::int8[]) with ordinality r(lo, hi, most, i),
		lateral (`+rows("r.most > 0", "key")+` union all `+rows("r.most < 0", "key desc")+`) e
		order by r.i, e.n limit $4) p
		where before < $5 order by i, n`, oidByteaArray, oidByteaArray, oidInt8Array, oidInt8, oidInt8)
}

// defineTransactions defines what only transactions do; see tx.go.
func (s *statements) defineTransactions(def definer) {
	// What is in some ranges, as a text that is the same only if all their rows are: a
	// row that was written since has another xmin. The offset keeps the planner from
	// joining the other way round.
	const state = `(
		select count(*) || ' ' || coalesce(bit_xor(hash_record_extended(row(t.key, t.xmin), 1)), 0)
			|| ' ' || coalesce(bit_xor(hash_record_extended(row(t.key, t.xmin), 2)), 0)
		from unnest($1::bytea[], $2::bytea[]) r(lo, hi),
		lateral (select key, xmin from kv! where key >= r.lo and key < r.hi offset 0) t)`
	// Where the session keeps what a transaction has seen while it changes from the
	// state that it has read to the newest one.
	s.seen = def("seen", `select set_config('greenroom.seen', `+state+`, false),
		set_config('greenroom.version', coalesce((select number::text from counter!), '0'), false)`, oidByteaArray, oidByteaArray)
	s.same = def("same", `
		select ('`+failedRead+`' || s.at)::int from (select `+state+` as at) s
		where s.at <> current_setting('greenroom.seen') or exists (
			select from unnest($1::bytea[], $2::bytea[]) r(lo, hi) join touched! w on w.lo < r.hi and r.lo < w.hi
			where w.number > current_setting('greenroom.version')::int8)`, oidByteaArray, oidByteaArray)
	s.next = def("next", `
		with u as (update counter! set number = number + 1 where number < most returning number)
		select case when count(*) = 0 then ('`+noVersion+`' || count(*))::int8 else max(number) end from u`)
	s.raise = def("raise", `update version! set number = number + {gap} returning number`)
	s.reserve = def("reserve", `
		insert into counter! as c(number, most) select number, number + {gap} from version! where number = $1
		on conflict (one) do update set number = greatest(c.number, excluded.number), most = excluded.most`, oidInt8)
	s.touch = def("touch", `
		with old as (delete from touched! where at < now() - interval '`+keepTouched+`')
		insert into touched!(number, lo, hi, at) select v.number, r.lo, r.hi, now()
		from counter! v, unnest($1::bytea[], $2::bytea[]) r(lo, hi)`, oidByteaArray, oidByteaArray)
	s.defineLate(def)
	s.size = def("size", `
		select coalesce(sum(octet_length(key) + coalesce(octet_length(rest), 0) + octet_length(value)), 0)::int8
		from kv! where key >= $1 and key < $2`, oidBytea, oidBytea)
}

// defineLate defines the operations whose effect only the server knows.
func (s *statements) defineLate(def definer) {
	// What was foreseen holds if the row is the one that it was foreseen for: one that was
	// written since has another xmin. The offset keeps the planner from joining the other
	// way round.
	s.mutate = def("mutate", `
		with o as (
			select a.k, a.rest, case when a.made is not null and t.xmin::text::int8 is not distinct from a.seen
				then a.made else mutate!(t.value, a.m::int4, a.p) end as v
			from unnest($1::bytea[], $2::bytea[], $3::int8[], $4::bytea[], $5::bytea[], $6::int8[]) a(k, rest, m, p, made, seen)
			left join lateral (select value, xmin from kv! where key = a.k offset 0) t on true),
		gone as (delete from kv! where key = any(array(select k from o where v is null)))
		insert into kv!(key, rest, value) select k, rest, v from o where v is not null
		on conflict (key) do update set value = excluded.value`,
		oidByteaArray, oidByteaArray, oidInt8Array, oidByteaArray, oidByteaArray, oidInt8Array)
	// It isn't prepared: the table is there only once something has been staged.
	s.foresee = def("", fmt.Sprintf(`
		update %s s set (b5, n6) = (
			select array_agg(case when a.m <= %d then mutate!(t.value, a.m::int4, a.p) end order by a.i), array_agg(t.xmin::text::int8 order by a.i)
			from unnest(s.b1, s.n3, s.b4) with ordinality a(k, m, p, i)
			left join lateral (select value, xmin from kv! where key = a.k offset 0) t on true)
		where i = $1`, stageTable, lastOfBits), oidInt8)
	stamp := func(key, value string) string {
		return `
		insert into kv!(key, rest, value)
		select case when octet_length(k) > {prefix} then substring(k from 1 for {prefix}) || sha256(substring(k from {prefix} + 1)) else k end,
			case when octet_length(k) > {prefix} then substring(k from {prefix} + 1) end, v
		from (select ` + key + ` as k, ` + value + ` as v
			from unnest($1::bytea[], $2::bytea[], $3::int8[]) o(k, v, i),
			(select int8send(number) || decode('0000', 'hex') as stamp from counter!) n) o
		on conflict (key) do update set value = excluded.value`
	}
	overlay := func(b string) string { return `overlay(` + b + ` placing stamp from i::int4 for octet_length(stamp))` }
	s.stampKey = def("stamp_key", stamp(overlay("k"), "v"), oidByteaArray, oidByteaArray, oidInt8Array)
	s.stampValue = def("stamp_value", stamp("k", overlay("v")), oidByteaArray, oidByteaArray, oidInt8Array)
}

// keepTouched is how long declared writes are remembered.
const keepTouched = "2 hours"
