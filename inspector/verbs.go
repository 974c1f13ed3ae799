package inspector

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/greenroomdb/greenroom/admin"
	"github.com/greenroomdb/greenroom/queue"
)

// A verb is something that a form of the page does to an actor, which is named as the API has it.
type verb func(ctx context.Context, c *admin.Client, actor string, form url.Values) error

// verbs are what forms do, by the end of their path.
var verbs = map[string]verb{
	"wake": func(ctx context.Context, c *admin.Client, actor string, _ url.Values) error {
		_, err := admin.Wake.Ask(ctx, c, actor, &admin.None{})
		return err
	},
	"sleep": func(ctx context.Context, c *admin.Client, actor string, _ url.Values) error {
		_, err := admin.Sleep.Ask(ctx, c, actor, &admin.None{})
		return err
	},
	"label": func(ctx context.Context, c *admin.Client, actor string, form url.Values) error {
		_, err := admin.SetLabels.Ask(ctx, c, actor, false, &admin.SetLabelsIn{Labels: map[string]string{form.Get("key"): form.Get("value")}})
		return err
	},
	"disconnect": func(ctx context.Context, c *admin.Client, actor string, form url.Values) error {
		_, err := admin.Disconnect.Ask(ctx, c, actor, &admin.DisconnectIn{ID: form.Get("id")})
		return err
	},
	"send":    send,
	"delete":  deleteMessage,
	"redrive": redrive,
	"cancel": func(ctx context.Context, c *admin.Client, actor string, _ url.Values) error {
		_, err := admin.CancelWorkflow.Ask(ctx, c, actor, false, &admin.None{})
		return err
	},
	"retry": func(ctx context.Context, c *admin.Client, actor string, _ url.Values) error {
		_, err := admin.RetryWorkflow.Ask(ctx, c, actor, false, &admin.None{})
		return err
	},
	"restart": func(ctx context.Context, c *admin.Client, actor string, _ url.Values) error {
		_, err := admin.RestartWorkflow.Ask(ctx, c, actor, false, &admin.None{})
		return err
	},
	"replay": func(ctx context.Context, c *admin.Client, actor string, form url.Values) error {
		_, err := admin.ReplayWorkflow.Ask(ctx, c, actor, false, &admin.ReplayWorkflowIn{Step: form.Get("step")})
		return err
	},
	"cell": setCell,
	"state": func(ctx context.Context, c *admin.Client, actor string, form url.Values) error {
		if !json.Valid([]byte(form.Get("state"))) {
			return &admin.Error{Code: "invalid", Message: "The value is not JSON."}
		}
		before := json.RawMessage(form.Get("before"))
		state, ok := replaced(before, form.Get("at"), json.RawMessage(form.Get("state")))
		if !ok {
			return &admin.Error{Code: "invalid", Message: "The state has no such part."}
		}
		_, err := admin.SetState.Ask(ctx, c, actor, false, &admin.SetStateIn{State: state, Before: before})
		return err
	},
}

// send enqueues a message.
func send(ctx context.Context, c *admin.Client, actor string, form url.Values) error {
	in := &admin.SendMessageIn{Name: form.Get("name"), Body: json.RawMessage(form.Get("body"))}
	if !json.Valid(in.Body) {
		return &admin.Error{Code: "invalid", Message: "The body of a message is JSON, such as {\"hello\":\"world\"}."}
	}
	if text := form.Get("delay"); text != "" {
		var err error
		if in.Delay, err = time.ParseDuration(text); err != nil {
			return &admin.Error{Code: "invalid", Message: "A delay is a length of time, such as 90s or 5m."}
		}
	}
	_, err := admin.SendMessage.Ask(ctx, c, actor, false, in)
	return err
}

// deleteMessage removes a message.
func deleteMessage(ctx context.Context, c *admin.Client, actor string, form url.Values) error {
	id, err := strconv.ParseUint(form.Get("id"), 10, 64)
	if err != nil {
		return &admin.Error{Code: "invalid", Message: "There is no such message."}
	}
	_, err = admin.DeleteMessages.Ask(ctx, c, actor, false, &admin.DeleteMessagesIn{IDs: []queue.ID{queue.ID(id)}})
	return err
}

// redrive makes messages of dead letters again, of those with a name if there is one.
func redrive(ctx context.Context, c *admin.Client, actor string, form url.Values) error {
	in := &admin.RedriveMessagesIn{}
	if name := form.Get("name"); name != "" {
		in.Names = []string{name}
	}
	_, err := admin.RedriveMessages.Ask(ctx, c, actor, false, in)
	return err
}

// unread refuses a form.
func unread(err error) error {
	return &admin.Error{Code: "invalid", Message: "The form can't be read: " + err.Error()}
}

// do does a verb to the actor of the visit, and shows the page again on which the form was.
func do(ctx context.Context, v *visit) (*shown, error) {
	run, ok := verbs[v.r.PathValue("verb")]
	if !ok {
		return notFound(ctx, v)
	}
	if !v.mayWrite() {
		return nil, &admin.Error{Code: "forbidden", Message: "Your token may only read."}
	}
	if err := v.r.ParseForm(); err != nil {
		return nil, unread(err)
	}
	v.again = formOf(v.r)
	// Form has the query of the URL, too: there names stay as they are, in which browsers change the ends of lines when they are in the body.
	if err := run(ctx, v.client, "id:"+v.actor.ID, v.r.Form); err != nil {
		return nil, err
	}
	return &shown{Status: http.StatusSeeOther, Location: localPath(v.r.PostForm.Get("back"))}, nil
}
