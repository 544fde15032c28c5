package cni

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"strings"

	"github.com/containernetworking/cni/pkg/invoke"
	"github.com/containernetworking/cni/pkg/skel"
	"github.com/containernetworking/cni/pkg/types"

	"github.com/flanneld/flannel/internal/cnicalls"
	"github.com/flanneld/flannel/internal/hostpaths"
)

// Plugin answers the container runtime's commands.
type Plugin struct {
	Exec invoke.Exec // starts the delegate; nil: found in CNI_PATH

	// Clear removes the given ones of its addresses from a bridge without pods, such as
	// [bridge.Clear]. Nil: a bridge stays as it is.
	Clear func(bridge string, isGiven func(netip.Prefix) bool) (removed []netip.Prefix, err error)
}

// Funcs returns the plugin's commands.
func (p Plugin) Funcs() skel.CNIFuncs {
	return skel.CNIFuncs{
		Add: counted("ADD", p.add), Check: counted("CHECK", p.check), Del: counted("DEL", p.del),
		GC: counted("GC", p.gc), Status: counted("STATUS", p.status),
	}
}

// counted counts the calls of a command for the daemon. A call that cannot be counted is served
// all the same.
func counted(name string, command func(*skel.CmdArgs) error) func(*skel.CmdArgs) error {
	return func(args *skel.CmdArgs) error {
		result := command(args)
		c := conf{SubnetFile: defaultSubnetFile} // of a configuration that cannot be read
		if read, err := parseConf(args.StdinData); err == nil {
			c = read
		}
		err := cnicalls.Count(hostpaths.CNICalls(c.SubnetFile), cnicalls.Call{Command: name, Failed: result != nil})
		if err != nil && !errors.Is(err, fs.ErrNotExist) { // no daemon has run without the folder
			fmt.Fprintf(os.Stderr, "flannel: %v\n", err)
		}
		return result
	}
}

func (p Plugin) add(args *skel.CmdArgs) error {
	c, delegated, err := current(args)
	if err != nil {
		return err
	}
	bridge := gatewayOf(delegated)
	if bridge != "" {
		p.clear(c, bridge)
	}
	text, err := encode(delegated)
	if err != nil {
		return err
	}
	// This comes before the delegate runs: if the delegate fails half-way, DEL
	// can clean up.
	if err := c.attachment(args).keep(text); err != nil {
		return err
	}
	result, err := invoke.DelegateAdd(context.Background(), pluginOf(delegated), text, p.Exec)
	if hasNotRun(err) {
		a := c.attachment(args)
		err = errors.Join(err, a.forget(a.path()))
	}
	if err != nil {
		return explain(delegated, "ADD", err)
	}
	if bridge != "" {
		c.remember(bridge)
	}
	return types.PrintResult(result, c.CNIVersion)
}

// gatewayOf returns the bridge to which the delegate gives the addresses of the pods' gateway; "" if there is none.
func gatewayOf(delegated map[string]any) string {
	gateway := delegated["isGateway"] == true || delegated["isDefaultGateway"] == true
	if pluginOf(delegated) != "bridge" || !gateway {
		return ""
	}
	name, _ := delegated["bridge"].(string)
	return cmp.Or(name, defaultBridge)
}

// remember notes the addresses of the bridge, for the time after the node's next subnet.
func (c conf) remember(bridge string) {
	env, err := readSubnetFile(c.SubnetFile)
	if err == nil {
		err = c.noteGateways(bridge, env)
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "flannel: note the addresses of %s: %v\n", bridge, err)
	}
}

// clear prepares the delegate's bridge. If that fails, the delegate reports the fault.
func (p Plugin) clear(c conf, name string) {
	if p.Clear == nil {
		return
	}
	env, err := readSubnetFile(c.SubnetFile)
	if err != nil {
		return
	}
	removed, err := p.Clear(name, c.gatewaysOf(name, env).isFormer)
	if err != nil {
		fmt.Fprintf(os.Stderr, "flannel: %v\n", err)
	}
	if len(removed) > 0 {
		fmt.Fprintf(os.Stderr, "flannel: removed the addresses of former subnets from %s, on which there is no pod: %v\n",
			name, removed)
	}
}

func (p Plugin) check(args *skel.CmdArgs) error {
	c, err := parseConf(args.StdinData)
	if err != nil {
		return err
	}
	delegated, _, err := c.attachment(args).kept()
	if err != nil {
		return err
	}
	if delegated == nil {
		return types.NewError(types.ErrUnknownContainer, "container "+args.ContainerID+" was not added by this plugin",
			"nothing is kept of it in "+c.DataDir)
	}
	c.repeat(delegated)
	return p.delegate(invoke.DelegateCheck, "CHECK", delegated)
}

// del succeeds for an unknown attachment: a runtime may repeat the command.
func (p Plugin) del(args *skel.CmdArgs) error {
	c, err := parseConf(args.StdinData)
	if err != nil {
		return err
	}
	a := c.attachment(args)
	delegated, path, err := a.kept()
	if errors.Is(err, errDamaged) {
		// The configuration equals the kept one, unless the node's subnet has
		// changed since. Without a subnet file the runtime has to try again.
		delegated, err = c.current()
	}
	if err != nil || delegated == nil {
		return err
	}
	c.repeat(delegated)
	err = p.delegate(invoke.DelegateDel, "DEL", delegated)
	if hasNotRun(err) {
		err = p.delByPresent(c, delegated, err)
	}
	if err != nil {
		return err
	}
	return a.forget(path)
}

// delByPresent deletes an attachment whose kept delegate cannot be started by that of the present configuration, if it
// is another one. An ADD with a delegate that the node lacks may have left it: without this, the sandbox would stay for
// ever once the configuration is right. It returns the given error if the delegate is the same.
func (p Plugin) delByPresent(c conf, kept map[string]any, err error) error {
	present, readErr := c.current()
	if readErr != nil || pluginOf(present) == pluginOf(kept) {
		return err
	}
	c.repeat(present)
	return p.delegate(invoke.DelegateDel, "DEL", present)
}

// hasNotRun reports whether a delegate failed before it began: CNI_PATH has no such program, or the kernel cannot start
// it. The CNI library says neither by a type of error.
func hasNotRun(err error) bool {
	return err != nil &&
		(strings.Contains(err.Error(), "failed to find plugin") || strings.Contains(err.Error(), "fork/exec "))
}

// repeat adds the present call's result to a kept configuration, and with it the call's version: a
// delegate reads both in one version, and a node gets other runtimes and plugins. Without a result
// the version of the ADD stays, which its delegate knows.
func (c conf) repeat(delegated map[string]any) {
	if c.PrevResult == nil {
		return
	}
	delegated["prevResult"] = c.PrevResult
	if c.CNIVersion != "" {
		delegated["cniVersion"] = c.CNIVersion
	}
}

// gc releases the leaked attachments by the delegate's DEL, each with its kept
// configuration: the GC of the reference plugins leaves the addresses of host-local
// reserved. The delegate's own GC follows. It alone needs a subnet file, which a node
// that has just booted lacks.
func (p Plugin) gc(args *skel.CmdArgs) error {
	c, err := parseConf(args.StdinData)
	if err != nil {
		return err
	}
	valid, err := c.valid()
	if err != nil {
		return err
	}
	released := c.forgetOthers(valid, func(a attachment, kept map[string]any) error {
		return p.delegate(p.delFor(a), "DEL", kept)
	})
	delegated, err := c.current()
	if err == nil {
		delegated["cni.dev/valid-attachments"] = valid
		err = p.delegate(invoke.DelegateGC, "GC", delegated)
	}
	return asOne(released, err)
}

// asOne makes one error of several, with the code of the first that has one. A runtime would see no
// other one of them.
func asOne(errs ...error) error {
	all := errors.Join(errs...)
	if all == nil {
		return nil
	}
	code := types.ErrInternal
	var e *types.Error
	if errors.As(all, &e) {
		code = e.Code
	}
	return types.NewError(code, all.Error(), "")
}

// delFor returns the delegate's DEL for an attachment that this process was not called
// for. Its network namespace is unknown, and usually gone.
func (p Plugin) delFor(a attachment) command {
	return func(ctx context.Context, plugin string, conf []byte, exec invoke.Exec) error {
		if exec == nil {
			exec = &invoke.DefaultExec{RawExec: &invoke.RawExec{Stderr: os.Stderr}}
		}
		search := os.Getenv("CNI_PATH")
		path, err := exec.FindInPath(plugin, filepath.SplitList(search))
		if err != nil {
			return err
		}
		args := &invoke.Args{Command: "DEL", ContainerID: a.container, IfName: a.ifname, Path: search}
		return invoke.ExecPluginWithoutResult(ctx, path, conf, args, exec)
	}
}

// status returns an error if an ADD could not succeed now.
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

// current returns the plugin's configuration, and the delegate's made from the present
// subnet file.
func current(args *skel.CmdArgs) (conf, map[string]any, error) {
	c, err := parseConf(args.StdinData)
	if err != nil {
		return conf{}, nil, err
	}
	delegated, err := c.current()
	return c, delegated, err
}

// current returns the delegate's configuration made from the present subnet file.
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

// explain adds the delegate and the command to an error, and keeps its code.
func explain(delegated map[string]any, command string, err error) error {
	code, details := types.ErrInternal, ""
	var e *types.Error
	if errors.As(err, &e) {
		code, details = e.Code, e.Details
	}
	if strings.Contains(err.Error(), "already has an IP address different from") {
		details = strings.TrimSpace(details + " the bridge has an address that is not of this node's subnet. If it is " +
			"of a subnet that the node had before, pods are on it: delete those pods, or delete the bridge and recreate its " +
			"pods (flannelctl check). If it is another program's, name another bridge in the CNI configuration")
	}
	return types.NewError(code, fmt.Sprintf("delegate plugin %s, %s: %v", pluginOf(delegated), command, err), details)
}
