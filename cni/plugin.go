package cni

import (
	"context"
	"errors"
	"fmt"

	"github.com/containernetworking/cni/pkg/invoke"
	"github.com/containernetworking/cni/pkg/skel"
	"github.com/containernetworking/cni/pkg/types"
)

// Plugin answers the runtime.
type Plugin struct {
	Exec invoke.Exec // starts the delegate; nil: found in CNI_PATH
}

// Funcs are the plugin's commands.
func (p Plugin) Funcs() skel.CNIFuncs {
	return skel.CNIFuncs{Add: p.add, Check: p.check, Del: p.del, GC: p.gc, Status: p.status}
}

func (p Plugin) add(args *skel.CmdArgs) error {
	c, delegated, err := current(args)
	if err != nil {
		return err
	}
	text, err := encode(delegated)
	if err != nil {
		return err
	}
	// Before the delegate runs: should it fail half-way, DEL can clean up.
	if err := c.keep(args.ContainerID, text); err != nil {
		return err
	}
	result, err := invoke.DelegateAdd(context.Background(), pluginOf(delegated), text, p.Exec)
	if err != nil {
		return explain(delegated, "ADD", err)
	}
	return types.PrintResult(result, c.CNIVersion)
}

func (p Plugin) check(args *skel.CmdArgs) error {
	c, err := parseConf(args.StdinData)
	if err != nil {
		return err
	}
	delegated, err := c.kept(args.ContainerID)
	if err != nil {
		return err
	}
	if delegated == nil {
		return types.NewError(types.ErrUnknownContainer, "container "+args.ContainerID+" was not added by this plugin", "nothing is kept of it in "+c.DataDir)
	}
	if c.PrevResult != nil {
		delegated["prevResult"] = c.PrevResult
	}
	return p.delegate(invoke.DelegateCheck, "CHECK", delegated)
}

// del succeeds for a container that is not known: it may be told twice.
func (p Plugin) del(args *skel.CmdArgs) error {
	c, err := parseConf(args.StdinData)
	if err != nil {
		return err
	}
	delegated, err := c.kept(args.ContainerID)
	if errors.Is(err, errDamaged) {
		// As good as what was kept, unless the node's subnet has changed since.
		delegated, err = c.current()
	}
	if err != nil || delegated == nil {
		return err
	}
	if c.PrevResult != nil {
		delegated["prevResult"] = c.PrevResult
	}
	if err := p.delegate(invoke.DelegateDel, "DEL", delegated); err != nil {
		return err
	}
	return c.forget(args.ContainerID)
}

func (p Plugin) gc(args *skel.CmdArgs) error {
	c, delegated, err := current(args)
	if err != nil {
		return err
	}
	delegated["cni.dev/valid-attachments"] = c.ValidAttachments
	if err := p.delegate(invoke.DelegateGC, "GC", delegated); err != nil {
		return err
	}
	return c.forgetOthers(c.ValidAttachments)
}

// status tells whether an ADD could succeed.
func (p Plugin) status(args *skel.CmdArgs) error {
	_, delegated, err := current(args)
	if err != nil {
		var e *types.Error
		if errors.As(err, &e) && e.Code == types.ErrTryAgainLater {
			return types.NewError(types.ErrPluginNotAvailable, e.Msg, e.Details)
		}
		return err
	}
	return p.delegate(invoke.DelegateStatus, "STATUS", delegated)
}

// current is what the runtime says, and what the subnet file makes of it now.
func current(args *skel.CmdArgs) (conf, map[string]any, error) {
	c, err := parseConf(args.StdinData)
	if err != nil {
		return conf{}, nil, err
	}
	delegated, err := c.current()
	return c, delegated, err
}

// current is the delegate's configuration as the subnet file makes it now.
func (c conf) current() (map[string]any, error) {
	env, err := readSubnetFile(c.SubnetFile)
	if err != nil {
		return nil, err
	}
	return c.delegated(env)
}

type command func(ctx context.Context, plugin string, conf []byte, exec invoke.Exec) error

func (p Plugin) delegate(do command, name string, delegated map[string]any) error {
	text, err := encode(delegated)
	if err != nil {
		return err
	}
	if err := do(context.Background(), pluginOf(delegated), text, p.Exec); err != nil {
		return explain(delegated, name, err)
	}
	return nil
}

// explain keeps the delegate's code and says who failed at what.
func explain(delegated map[string]any, command string, err error) error {
	code, details := types.ErrInternal, ""
	var e *types.Error
	if errors.As(err, &e) {
		code, details = e.Code, e.Details
	}
	return types.NewError(code, fmt.Sprintf("delegate plugin %s, %s: %v", pluginOf(delegated), command, err), details)
}
