package main

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/greenroomdb/greenroom/host"
	"github.com/greenroomdb/greenroom/host/client"
)

// asProgram is the environment variable with which the test is the program.
const asProgram = "SHOP_AS_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
	}
	os.Exit(m.Run())
}

// TestProgram has a client of the program, in a process of its own.
func TestProgram(t *testing.T) {
	program := exec.CommandContext(t.Context(), os.Args[0], filepath.Join(t.TempDir(), "data"), "--listen", "127.0.0.1:0")
	program.Env = append(os.Environ(), asProgram+"=1")
	stdout, err := program.StdoutPipe()
	must(t, err)
	stderr, err := program.StderrPipe()
	must(t, err)
	must(t, program.Start())
	line, err := bufio.NewReader(stdout).ReadString('\n')
	must(t, err)
	_, url, _ := strings.Cut(strings.TrimSpace(line), " at ")
	c, err := client.New(url, nil)
	must(t, err)

	list := c.Actor(host.Address{Type: "todo", Key: "shop"})
	_, err = client.Invoke(t.Context(), list, addTask, Task{Text: "sweep"})
	must(t, err)
	all, err := client.Invoke(t.Context(), list, tasks, struct{}{})
	if err != nil || len(all) != 1 || all[0].Text != "sweep" {
		t.Errorf("%+v, %v", all, err)
	}

	order := c.Actor(host.Address{Type: "order", Key: "7"})
	must(t, client.Command(t.Context(), order, place, Order{"ann@example.org", "tea", 500}))
	must(t, client.Command(t.Context(), order, shipped, "AB 12"))
	log := bufio.NewScanner(stderr)
	for log.Scan() && !strings.Contains(log.Text(), "mail to=ann@example.org") {
	}

	words := make(chan host.Raw, 10)
	agent, err := c.Actor(host.Address{Type: "agent", Key: "1"}).Connect(t.Context(), &client.ConnectOptions{
		OnEvent: func(_ string, body host.Raw) { words <- body },
	})
	must(t, err)
	must(t, agent.Subscribe(t.Context(), "word"))
	must(t, client.Command(t.Context(), agent, ask, "why not"))
	for _, want := range []string{"why", "not"} {
		var word string
		if err := (<-words).Decode(&word); err != nil || word != want {
			t.Errorf("%q, %v", word, err)
		}
	}
	agent.Close()

	must(t, program.Process.Signal(os.Interrupt))
	_, err = io.Copy(io.Discard, io.MultiReader(stdout, stderr))
	must(t, err)
	must(t, program.Wait())
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
