//go:build !wasip1

package guest

// Without a host these functions have nothing to call: they are for tools that look at the code.

var take = nobody

var now = func() int64 { return 0 }

var (
	reply              function = nobody
	fail               function = nobody
	logLine            function = nobody
	whoami             function = nobody
	input              function = nobody
	destroy            function = nobody
	stateGet           function = nobody
	stateSet           function = nobody
	workflowStart      function = nobody
	workflowStartAgain function = nobody
	workflowStatus     function = nobody
	kvGet              function = nobody
	kvPut              function = nobody
	label              function = nobody
	kvDelete           function = nobody
	kvDeleteRange      function = nobody
	kvList             function = nobody
	sqlExec            function = nobody
	sqlQuery           function = nobody
	queueSend          function = nobody
	send               function = nobody
	queueReceive       function = nobody
	queueComplete      function = nobody
	queueNack          function = nobody
	queueFail          function = nobody
	queueBury          function = nobody
	queueLen           function = nobody
	scheduleAdd        function = nobody
	scheduleCancel     function = nobody
	scheduleList       function = nobody
	connList           function = nobody
	connGet            function = nobody
	connSetState       function = nobody
	connSubscribe      function = nobody
	connSend           function = nobody
	connDisconnect     function = nobody
	broadcast          function = nobody
)

func nobody([]byte) int32 { return noHost }
