package guest

import (
	"unsafe"

	"github.com/greenroomdb/greenroom/host/internal/abi"
)

// What the host calls.

//go:wasmexport greenroom_abi_version
func abiVersion() int32 { return abi.Version }

//go:wasmexport greenroom_describe
func abiDescribe() { describeSelf() }

//go:wasmexport greenroom_turn
func abiTurn(size int32) { handleTurn(size) }

// place returns where bytes are. The host looks at them during the call alone.
func place(b []byte) (unsafe.Pointer, uint32) {
	return unsafe.Pointer(unsafe.SliceData(b)), uint32(len(b))
}

// What the module calls: for each function an import, and what hands it bytes.

//go:wasmimport greenroom_v1 take
func importTake(ptr unsafe.Pointer, size uint32) int32

func take(to []byte) int32 { return importTake(place(to)) }

//go:wasmimport greenroom_v1 now
func now() int64

//go:wasmimport greenroom_v1 reply
func importReply(ptr unsafe.Pointer, size uint32) int32

func reply(arg []byte) int32 { return importReply(place(arg)) }

//go:wasmimport greenroom_v1 fail
func importFail(ptr unsafe.Pointer, size uint32) int32

func fail(arg []byte) int32 { return importFail(place(arg)) }

//go:wasmimport greenroom_v1 log
func importLogLine(ptr unsafe.Pointer, size uint32) int32

func logLine(arg []byte) int32 { return importLogLine(place(arg)) }

//go:wasmimport greenroom_v1 self
func importWhoami(ptr unsafe.Pointer, size uint32) int32

func whoami(arg []byte) int32 { return importWhoami(place(arg)) }

//go:wasmimport greenroom_v1 input
func importInput(ptr unsafe.Pointer, size uint32) int32

func input(arg []byte) int32 { return importInput(place(arg)) }

//go:wasmimport greenroom_v1 destroy
func importDestroy(ptr unsafe.Pointer, size uint32) int32

func destroy(arg []byte) int32 { return importDestroy(place(arg)) }

//go:wasmimport greenroom_v1 state_get
func importStateGet(ptr unsafe.Pointer, size uint32) int32

func stateGet(arg []byte) int32 { return importStateGet(place(arg)) }

//go:wasmimport greenroom_v1 state_set
func importStateSet(ptr unsafe.Pointer, size uint32) int32

func stateSet(arg []byte) int32 { return importStateSet(place(arg)) }

//go:wasmimport greenroom_v1 workflow_start
func importWorkflowStart(ptr unsafe.Pointer, size uint32) int32

func workflowStart(arg []byte) int32 { return importWorkflowStart(place(arg)) }

//go:wasmimport greenroom_v1 workflow_start_again
func importWorkflowStartAgain(ptr unsafe.Pointer, size uint32) int32

func workflowStartAgain(arg []byte) int32 { return importWorkflowStartAgain(place(arg)) }

//go:wasmimport greenroom_v1 workflow_status
func importWorkflowStatus(ptr unsafe.Pointer, size uint32) int32

func workflowStatus(arg []byte) int32 { return importWorkflowStatus(place(arg)) }

//go:wasmimport greenroom_v1 kv_get
func importKvGet(ptr unsafe.Pointer, size uint32) int32

func kvGet(arg []byte) int32 { return importKvGet(place(arg)) }

//go:wasmimport greenroom_v1 kv_put
func importKvPut(ptr unsafe.Pointer, size uint32) int32

func kvPut(arg []byte) int32 { return importKvPut(place(arg)) }

//go:wasmimport greenroom_v1 kv_delete
func importKvDelete(ptr unsafe.Pointer, size uint32) int32

func kvDelete(arg []byte) int32 { return importKvDelete(place(arg)) }

//go:wasmimport greenroom_v1 kv_delete_range
func importKvDeleteRange(ptr unsafe.Pointer, size uint32) int32

func kvDeleteRange(arg []byte) int32 { return importKvDeleteRange(place(arg)) }

//go:wasmimport greenroom_v1 kv_list
func importKvList(ptr unsafe.Pointer, size uint32) int32

func kvList(arg []byte) int32 { return importKvList(place(arg)) }

//go:wasmimport greenroom_v1 sql_exec
func importSqlExec(ptr unsafe.Pointer, size uint32) int32

func sqlExec(arg []byte) int32 { return importSqlExec(place(arg)) }

//go:wasmimport greenroom_v1 sql_query
func importSqlQuery(ptr unsafe.Pointer, size uint32) int32

func sqlQuery(arg []byte) int32 { return importSqlQuery(place(arg)) }

//go:wasmimport greenroom_v1 queue_send
func importQueueSend(ptr unsafe.Pointer, size uint32) int32

func queueSend(arg []byte) int32 { return importQueueSend(place(arg)) }

//go:wasmimport greenroom_v1 send
func importSend(ptr unsafe.Pointer, size uint32) int32

func send(arg []byte) int32 { return importSend(place(arg)) }

//go:wasmimport greenroom_v1 queue_receive
func importQueueReceive(ptr unsafe.Pointer, size uint32) int32

func queueReceive(arg []byte) int32 { return importQueueReceive(place(arg)) }

//go:wasmimport greenroom_v1 queue_complete
func importQueueComplete(ptr unsafe.Pointer, size uint32) int32

func queueComplete(arg []byte) int32 { return importQueueComplete(place(arg)) }

//go:wasmimport greenroom_v1 queue_nack
func importQueueNack(ptr unsafe.Pointer, size uint32) int32

func queueNack(arg []byte) int32 { return importQueueNack(place(arg)) }

//go:wasmimport greenroom_v1 queue_fail
func importQueueFail(ptr unsafe.Pointer, size uint32) int32

func queueFail(arg []byte) int32 { return importQueueFail(place(arg)) }

//go:wasmimport greenroom_v1 queue_bury
func importQueueBury(ptr unsafe.Pointer, size uint32) int32

func queueBury(arg []byte) int32 { return importQueueBury(place(arg)) }

//go:wasmimport greenroom_v1 queue_len
func importQueueLen(ptr unsafe.Pointer, size uint32) int32

func queueLen(arg []byte) int32 { return importQueueLen(place(arg)) }

//go:wasmimport greenroom_v1 label
func importLabel(ptr unsafe.Pointer, size uint32) int32

func label(arg []byte) int32 { return importLabel(place(arg)) }

//go:wasmimport greenroom_v1 schedule_add
func importScheduleAdd(ptr unsafe.Pointer, size uint32) int32

func scheduleAdd(arg []byte) int32 { return importScheduleAdd(place(arg)) }

//go:wasmimport greenroom_v1 schedule_cancel
func importScheduleCancel(ptr unsafe.Pointer, size uint32) int32

func scheduleCancel(arg []byte) int32 { return importScheduleCancel(place(arg)) }

//go:wasmimport greenroom_v1 schedule_list
func importScheduleList(ptr unsafe.Pointer, size uint32) int32

func scheduleList(arg []byte) int32 { return importScheduleList(place(arg)) }

//go:wasmimport greenroom_v1 conn_list
func importConnList(ptr unsafe.Pointer, size uint32) int32

func connList(arg []byte) int32 { return importConnList(place(arg)) }

//go:wasmimport greenroom_v1 conn_get
func importConnGet(ptr unsafe.Pointer, size uint32) int32

func connGet(arg []byte) int32 { return importConnGet(place(arg)) }

//go:wasmimport greenroom_v1 conn_set_state
func importConnSetState(ptr unsafe.Pointer, size uint32) int32

func connSetState(arg []byte) int32 { return importConnSetState(place(arg)) }

//go:wasmimport greenroom_v1 conn_subscribe
func importConnSubscribe(ptr unsafe.Pointer, size uint32) int32

func connSubscribe(arg []byte) int32 { return importConnSubscribe(place(arg)) }

//go:wasmimport greenroom_v1 conn_send
func importConnSend(ptr unsafe.Pointer, size uint32) int32

func connSend(arg []byte) int32 { return importConnSend(place(arg)) }

//go:wasmimport greenroom_v1 conn_disconnect
func importConnDisconnect(ptr unsafe.Pointer, size uint32) int32

func connDisconnect(arg []byte) int32 { return importConnDisconnect(place(arg)) }

//go:wasmimport greenroom_v1 broadcast
func importBroadcast(ptr unsafe.Pointer, size uint32) int32

func broadcast(arg []byte) int32 { return importBroadcast(place(arg)) }
