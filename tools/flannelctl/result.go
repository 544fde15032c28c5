package flannelctl

import (
	"encoding/json"

	"github.com/flanneld/flannel/tools/output"
)

// finding is a result that may show trouble.
type finding interface {
	output.Result
	Trouble() bool
}

// printFound prints a result, and returns errTrouble if it shows trouble.
func (a *app) printFound(r finding) error {
	if err := a.Print(r); err != nil {
		return err
	}
	if r.Trouble() {
		return errTrouble
	}
	return nil
}

// done is the result of a command that has changed something.
type done struct {
	Done string `json:"Done"`
}

// Text prints what was done.
func (d done) Text(p *output.Page) { p.Line(output.Good(d.Done)) }

// jsonOrText returns data that is JSON as it is, and other data as a string.
func jsonOrText(data []byte) ([]byte, error) {
	if json.Valid(data) {
		return data, nil
	}
	return json.Marshal(string(data))
}
