package runnerproto_test

import (
	"fmt"
	"maps"
	"math"

	rp "github.com/greenroomdb/greenroom/rivetkit/internal/runnerproto"
)

// The functions below write the messages about databases as the captures do.

func askSQL(what string, id uint32, actor string, data ...object) any {
	all := object{"actorId": actor}
	for _, d := range data {
		maps.Copy(all, d)
	}
	return union("ToRivetSqlite"+what+"Request", object{"requestId": small(id), "data": all})
}

func sayFence(f rp.Fence) object {
	return object{"expectedGeneration": optional(f.Generation, long), "expectedHeadTxid": optional(f.Head, long)}
}

func sayPage(p rp.Page) any { return object{"pgno": small(p.Number), "bytes": body(p.Data)} }

func sayDatabase(d rp.Database) object {
	return object{"namespaceId": d.Namespace, "generation": long(d.Generation)}
}

func sayStatement(s rp.Statement) any {
	if s.Params == nil {
		return object{"sql": s.SQL, "params": nil}
	}
	return object{"sql": s.SQL, "params": list(s.Params, sayValue)}
}

func sayValue(v rp.Value) any {
	value := func(tag string, v any) any { return union("SqliteValue"+tag, object{"value": v}) }
	switch v := v.(type) {
	case nil:
		return union("SqliteValueNull", nil)
	case int64:
		return value("Integer", long(v))
	case float64:
		return value("Float", fmt.Sprintf("x'%016x'", math.Float64bits(v)))
	case string:
		return value("Text", v)
	case []byte:
		return value("Blob", data(v))
	}
	return fmt.Sprintf("%T", v)
}

// sayReply is what m says if it is a Reply.
func sayReply(m rp.ToRunner) any {
	switch m := m.(type) {
	case rp.Reply[rp.Pages]:
		return sayReplyOf("GetPages", m, func(p rp.Pages) any {
			return object{"pages": list(p.Pages, sayPage), "headTxid": optional(p.Head, long)}
		})
	case rp.Reply[rp.Committed]:
		return sayReplyOf("Commit", m, func(r rp.Committed) any { return object{"headTxid": optional(r.Head, long)} })
	case rp.Reply[rp.StageBegun]:
		return sayReplyOf("CommitStageBegin", m, func(b rp.StageBegun) any { return object{"txid": long(b.TxID)} })
	case rp.Reply[rp.SegmentStaged]:
		return sayReplyOf("CommitStageSegment", m, func(s rp.SegmentStaged) any { return object{"stagedBytes": long(s.Bytes)} })
	case rp.Reply[rp.StageFinished]:
		return sayReplyOf("CommitFinalize", m, func(f rp.StageFinished) any { return object{"headTxid": optional(f.Head, long)} })
	case rp.Reply[rp.Table]:
		return sayReplyOf("Exec", m, func(t rp.Table) any { return object{"result": sayTable(t)} })
	case rp.Reply[rp.Result]:
		return sayReplyOf("Execute", m, func(r rp.Result) any { return object{"result": sayResult(r)} })
	case rp.Reply[rp.Results]:
		return sayReplyOf("ExecuteBatch", m, func(r rp.Results) any { return object{"results": list(r, sayResult)} })
	}
	return fmt.Sprintf("%T", m)
}

func sayReplyOf[T any](what string, r rp.Reply[T], say func(T) any) any {
	var data object
	if e := r.Err; e != nil {
		data = union("SqliteErrorResponse", object{"group": e.Group, "code": e.Code, "message": e.Message})
	} else {
		data = union("Sqlite"+what+"Ok", say(r.Result))
	}
	return union("ToEnvoySqlite"+what+"Response", object{"requestId": small(r.ID), "data": data})
}

func sayTable(t rp.Table) object {
	return object{"columns": list(t.Columns, str), "rows": list(t.Rows, func(row []rp.Value) any { return list(row, sayValue) })}
}

func sayResult(r rp.Result) any {
	all := sayTable(r.Table)
	all["changes"], all["lastInsertRowId"] = long(r.Changes), optional(r.LastInsertID, long)
	return all
}
