# Who may know whom: imports run one way, from executables over nodes and seams to the core.
# For each target its modules of this package. Modules that are not of this package are free, but
# for those that `forbid` names.

function allow(target, modules) { known[target] = 1; allowed[target] = " " modules " " }
function forbid(target, modules) { forbidden[target] = " " modules " " }
function has(list, word) { return index(list, " " word " ") > 0 }
function complain(why) {
  printf "%s:%d: %s\n", FILENAME, FNR, why
  broken++
}

BEGIN {
  seams = "CallCore CallWire CallBus CallTelemetry"
  allow("CallCore", "")
  allow("CallTelemetry", "")
  allow("CallAuth", "CallCore CallTelemetry")
  allow("CallWire", "CallCore CCallProto CProtobufC")
  allow("CallBus", "CallCore CallWire CallTelemetry")
  allow("NATSBus", "CallBus CallCore CallWire CallTelemetry CNATS")
  allow("CallCoordinator", seams " CallAuth")
  allow("CallPush", seams " CallAuth")
  allow("CallEdge", seams " CallAuth")
  allow("CallMachine", "CallCore CallWire")
  allow("CallClient", "CallCore CallWire CallMachine")
  allow("CallmeshClient", "CallCore CallWire CallMachine")
  allow("CallmeshCallKit", "CallCore CallWire CallMachine CallmeshClient")
  allow("CallmeshNIO", "CallCore CallWire CallMachine CallClient CallmeshClient")
  allow("CallJudge", "CallCore CallWire CallMachine")
  allow("CallProcesses", "")
  allow("CallTestKit", seams " CallAuth CallCoordinator CallEdge CallPush CallClient")
  allow("CallSimulation", seams " CallAuth CallCoordinator CallEdge CallPush CallClient CallJudge")
  allow("callsim", "CallCore CallJudge CallProcesses CallSimulation CallWire")
  allow("apnssim", "CallCore CallTestKit")
  allow("CallNodeKit", seams " CallAuth CallCoordinator CallEdge CallPush NATSBus")
  allow("callnode", "CallNodeKit")
  allow("callctl", seams " CallAuth NATSBus")
  allow("CallHostile", "CallCore CallWire CallAuth CallClient")
  allow("CallLoadKit", "CallCore CallWire CallAuth CallBus CallTelemetry CallClient CallHostile CallJudge CallProcesses CallTestKit")
  allow("callload", "CallLoadKit CallBus NATSBus")
  allow("CallPhoneKit", "CallClient CallmeshClient CallmeshNIO")
  allow("callphone", "CallPhoneKit")
  allow("WebPhoneKit", "CallAuth CallLoadKit CallProcesses CallTelemetry")
  allow("webphone", "WebPhoneKit")
  allow("CallBench", "CallCore CallWire CallTelemetry CallCoordinator CallClient CallJudge CallSimulation")
  allow("Benchmarks", seams " CallAuth CallCoordinator CallPush CallProcesses CallTestKit NATSBus")

  # Foundation is large and slow to load; FoundationEssentials holds what codecs and files need.
  forbid("CallBus", "Foundation FoundationEssentials")
  forbid("NATSBus", "Foundation FoundationEssentials")
  forbid("CallWire", "Foundation")
  forbid("CallTelemetry", "Foundation")
  # A device's machine runs over any transport and on any clock.
  forbid("CallmeshClient", "NIOCore NIOPosix NIOHTTP1 NIOWebSocket NIOSSL NIOTLS Dispatch")
  forbid("CallMachine", "NIOCore NIOPosix NIOHTTP1 NIOWebSocket NIOSSL NIOTLS Foundation FoundationEssentials Dispatch")

  # One Swift importer for each C module, and its tests.
  owner["CNATS"] = "NATSBus"
  owner["CCallProto"] = "CallWire"
  owner["CProtobufC"] = "CallWire"
}

FNR == 1 {
  split(FILENAME, parts, "/")
  isTest = parts[1] == "Tests"
  target = parts[2]
  if (!isTest && !(target in known))
    complain("no rule says what the target " target " may import; add one to deploy/dev/imports.awk")
}

/^[ \t]*(@[A-Za-z_()]+[ \t]+)*((public|package|internal|fileprivate|private)[ \t]+)?import[ \t]/ {
  line = $0
  sub(/^.*import[ \t]+((struct|class|enum|protocol|func|var|let|typealias)[ \t]+)?/, "", line)
  module = line
  sub(/[^A-Za-z0-9_].*$/, "", module)

  if (module in owner && target != owner[module] && target != owner[module] "Tests")
    complain("only " owner[module] " may import " module)
  else if (isTest)
    next
  else if (target == "CallCore")
    complain("CallCore imports nothing, not even " module ": it holds values and rules only")
  else if (has(forbidden[target], module))
    complain(target " may not import " module)
  else if (module in known && !has(allowed[target], module)) {
    if (module == "NATSBus")
      complain(target " may not import NATSBus: executables and tests alone name adapters")
    else if (module == "CallTestKit")
      complain(target " may not import CallTestKit: it is for tests, benchmarks and simulators")
    else
      complain(target " may not import " module " (it may:" allowed[target] ")")
  }
}

END {
  if (broken) exit 1
  print "imports follow the rules"
}
