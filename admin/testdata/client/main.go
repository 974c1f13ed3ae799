// Command client reads with a generated client all that can be read without a body, and says of each what it got.
package main

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"os"
	"reflect"
	"strings"
)

func main() {
	c, err := NewClientWithResponses(os.Args[1], WithRequestEditorFn(func(_ context.Context, r *http.Request) error {
		r.Header.Set("Authorization", "Bearer "+os.Args[2])
		return nil
	}))
	if err != nil {
		fmt.Println(err)
		return
	}
	readEvents(c)
	readPages(c)
	readKey(c)
	readRows(c)
	client := reflect.ValueOf(c)
	for i := range client.NumMethod() {
		name := client.Type().Method(i).Name
		if !strings.HasPrefix(name, "Get") || !strings.HasSuffix(name, "WithResponse") || name == "GetMetricsWithResponse" || name == "GetEventsWithResponse" {
			continue // the process of the test counts nothing; for events see readEvents
		}
		method := client.Method(i)
		args := []reflect.Value{reflect.ValueOf(context.Background())}
		for k := 1; k < method.Type().NumIn()-1; k++ { // the last one is variadic
			arg := reflect.New(method.Type().In(k)).Elem()
			if arg.Kind() == reflect.String {
				arg.SetString("room")
			}
			args = append(args, arg)
		}
		out := method.Call(args)
		if !out[1].IsNil() {
			fmt.Println(name, out[1])
			continue
		}
		resp := out[0].Elem()
		status := out[0].MethodByName("StatusCode").Call(nil)[0].Int()
		if body := resp.FieldByName("JSON200"); status != http.StatusOK || body.IsValid() && body.IsNil() {
			fmt.Println(name, status, string(resp.FieldByName("Body").Bytes()))
			continue
		}
		fmt.Println(name, "ok")
	}
}

// readEvents begins to read the events, as a response of net/http: generators know of no streams, and their other method waits for the end of one.
func readEvents(c *ClientWithResponses) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	resp, err := c.ClientInterface.GetEvents(ctx, &GetEventsParams{Actor: &[]string{"room"}})
	if err != nil {
		fmt.Println("events:", err)
		return
	}
	defer resp.Body.Close()
	line, err := bufio.NewReader(resp.Body).ReadString('\n')
	if err != nil || !strings.HasPrefix(line, ":") || resp.Header.Get("Content-Type") != "text/event-stream" {
		fmt.Println("events:", line, resp.Status, err)
		return
	}
	fmt.Println("events ok")
}

// readPages reads the entries of a workflow one by one.
func readPages(c *ClientWithResponses) {
	one, after, entries := 1, "", 0
	for {
		resp, err := c.GetActorsActorWorkflowWithResponse(context.Background(), "room", &GetActorsActorWorkflowParams{After: &after, Limit: &one})
		if err != nil || resp.JSON200 == nil || len(resp.JSON200.Entries) != 1 {
			fmt.Println("pages:", resp, err)
			return
		}
		if entries++; resp.JSON200.Next == nil {
			break
		}
		after = *resp.JSON200.Next
	}
	fmt.Println("pages of", entries, "ok")
}

// readKey reads a key, with its value, that a list has named.
func readKey(c *ClientWithResponses) {
	all, err := c.GetActorsActorKeysWithResponse(context.Background(), "room", &GetActorsActorKeysParams{})
	if err != nil || all.JSON200 == nil || len(all.JSON200.Keys) == 0 {
		fmt.Println("keys:", all, err)
		return
	}
	hex := all.JSON200.Keys[0].Hex
	one, err := c.GetActorsActorKeysWithResponse(context.Background(), "room", &GetActorsActorKeysParams{Key: &hex})
	if err != nil || one.JSON200 == nil || len(one.JSON200.Keys) != 1 || one.JSON200.Keys[0].Hex != hex {
		fmt.Println("key:", one, err)
		return
	}
	fmt.Println("key ok")
}

// readRows reads rows of a table.
func readRows(c *ClientWithResponses) {
	resp, err := c.PostActorsActorQueryWithResponse(context.Background(), "room", PostActorsActorQueryJSONRequestBody{Sql: "select text from message"})
	if err != nil || resp.JSON200 == nil || len(resp.JSON200.Columns) != 1 || len(resp.JSON200.Rows) != 1 {
		fmt.Println("rows:", resp, err)
		return
	}
	fmt.Println("rows ok")
}
