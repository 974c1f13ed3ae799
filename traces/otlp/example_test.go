package otlp_test

import (
	"context"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/kv/memkv"
	"github.com/greenroomdb/greenroom/traces"
	"github.com/greenroomdb/greenroom/traces/otlp"
)

func ExampleAppendJSON() {
	b, err := otlp.AppendJSON(nil, []traces.SpanData{{
		TraceID: traces.TraceID{15: 1}, SpanID: traces.SpanID{7: 1}, Name: "work",
		Start: time.Unix(1, 0), End: time.Unix(2, 0), Attributes: []traces.Attr{traces.Int("n", 1)},
	}})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(string(b))
	// Output:
	// {"resourceSpans":[{"scopeSpans":[{"spans":[{"traceId":"00000000000000000000000000000001","spanId":"0000000000000001","name":"work","startTimeUnixNano":"1000000000","endTimeUnixNano":"2000000000","attributes":[{"key":"n","value":{"intValue":"1"}}]}]}]}]}
}

func ExamplePush() {
	ctx := context.Background()
	store, err := actorstore.Open(ctx, memkv.New(), nil)
	if err != nil {
		log.Fatal(err)
	}
	actor, err := store.Named(ctx, "lobby", nil)
	if err != nil {
		log.Fatal(err)
	}
	tr, err := traces.Open(ctx, actor, nil)
	if err != nil {
		log.Fatal(err)
	}
	tr.Begin("work", nil).End()
	tr.Begin("more work", nil) // goes on, and is not sent

	collector := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if _, err := io.Copy(io.Discard, r.Body); err != nil {
			log.Print(err)
		}
		fmt.Println(r.Method, r.URL.Path, r.Header.Get("Content-Type"), r.Header.Get("Content-Encoding"))
	}))
	defer collector.Close()
	client, err := otlp.NewClient(collector.URL, nil)
	if err != nil {
		log.Fatal(err)
	}
	// The next push begins where this one ends.
	until := time.Now().Add(time.Second)
	pushed, err := otlp.Push(ctx, tr, traces.Query{End: until}, client)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(pushed.Spans, "span sent")
	if err := tr.Close(ctx); err != nil {
		log.Fatal(err)
	}
	if err := actor.Close(); err != nil {
		log.Fatal(err)
	}
	if err := store.Close(); err != nil {
		log.Fatal(err)
	}
	// Output:
	// POST /v1/traces application/x-protobuf gzip
	// 1 span sent
}
