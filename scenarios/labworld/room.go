package labworld

import "encoding/json"

// leaveRoom returns a network config in which no node leases the subnets that scenario files
// write down after the nodes have begun, those from 10.5.191.0 on. A daemon here draws its subnet
// without a seed, and sometimes drew one of those. A config of another network stays as it is.
func leaveRoom(text string) string {
	var members map[string]json.RawMessage
	if json.Unmarshal([]byte(text), &members) != nil || string(members["Network"]) != `"10.5.0.0/16"` ||
		members["SubnetLen"] != nil {
		return text
	}
	members["SubnetMax"] = json.RawMessage(`"10.5.190.0"`)
	out, err := json.Marshal(members)
	if err != nil {
		return text
	}
	return string(out)
}
