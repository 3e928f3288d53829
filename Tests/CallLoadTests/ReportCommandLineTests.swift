import ArgumentParser
import CallLoadKit
import Testing

@Suite("Command line of callload") struct ReportCommandLineTests {
  @Test("the defaults are those of the issue") func defaults() throws {
    let command = try LoadCommand.parse([])
    #expect(command.load.devices == 10_000)
    #expect(command.load.devicesPerUser == 3)
    #expect(command.load.rate == 200)
    #expect(command.load.duration.seconds == 30)
    let settings = try plan().settings
    #expect(settings.coordinators == 2)
    #expect(settings.edges == 2)
    #expect(settings.processes == 1)
    #expect(command.load.protocol == .pb)
  }

  @Test(
    "lengths of time",
    arguments: [("30s", 30), ("2m", 120), ("250ms", 0.25), ("1h", 3_600), ("1.5m", 90), ("7", 7)])
  func durations(_ text: String, _ seconds: Double) throws {
    #expect(try RunDuration.parse(text).seconds == seconds)
  }

  @Test("what is no length of time", arguments: ["", "s", "-1s", "0s", "abc", "nan", "inf", "1d"])
  func wrongDurations(_ text: String) {
    #expect(throws: (any Error).self) { try RunDuration.parse(text) }
  }

  @Test("an error names option, value and remedy") func errors() {
    #expect(refusal("--rate", "0").hasPrefix("--rate 0.0: give calls per second"))
    #expect(refusal("--devices", "5").hasPrefix("--devices 5: give at least 6"))
    #expect(
      refusal("--devices-per-user", "25") == "--devices-per-user 25: a user has 1 to 24 devices")
    #expect(refusal("--duration", "soon").contains("\"soon\" is not a length of time"))
    #expect(refusal("--edges", "0") == "--edges 0: give 1 to 64")
    #expect(
      refusal("--scenario", "nowhere.json")
        .hasPrefix("--scenario nowhere.json: neither a built-in scenario nor a file; built in are"))
    #expect(refusal("--keys", "k.json").hasPrefix("--keys k.json: goes with --edge only"))
    #expect(refusal("--edge", "ws://h:1").hasPrefix("--edge needs --keys FILE"))
    #expect(
      refusal("--json", "/nowhere/at/all.json")
        == "/nowhere/at/all.json: cannot be written; choose another file")
  }

  @Test("another version of callnode needs restarts, and is named in the report")
  func otherCallnode() throws {
    let without = refusal("--other-callnode", "/bin/sh")
    #expect(without.hasPrefix("--other-callnode /bin/sh: no node is started again; add --chaos"))
    let missing = refusal("--other-callnode", "/nowhere", "--chaos", "kill-edge=5s")
    #expect(missing.hasPrefix("--other-callnode /nowhere: no program is there"))
  }

  @Test("TLS") func tls() throws {
    #expect(refusal("--tls", "--edge", "wss://h:1").hasPrefix("--tls: is for a local cluster"))
    #expect(refusal("--ca", "/nowhere").hasPrefix("--ca /nowhere: goes with --edge wss://"))
    #expect(
      refusal("--ca", "/nowhere", "--edge", "wss://h:1").contains(
        "/nowhere: the file cannot be read"))
    #expect(refusal("--tls", "--hostile", "each").hasPrefix("--hostile: attackers speak no TLS"))
  }

  @Test("edges") func edges() throws {
    #expect(try RunPlan.edgeURL("ws://h:80") == "ws://h:80")
    #expect(try RunPlan.edgeURL("http://h:80/") == "ws://h:80")
    #expect(try RunPlan.edgeURL("h:80/v1/connect") == "ws://h:80/v1/connect")
    #expect(try RunPlan.edgeURL("[::1]:80") == "ws://[::1]:80")
    #expect(try RunPlan.edgeURL("wss://h:443") == "wss://h:443")
    #expect(try RunPlan.edgeURL("https://h:443/") == "wss://h:443")
    for wrong in ["wss://h", "h", "h:0", "h:99999", ":80", "ftp://h:80", ""] {
      #expect(throws: SetupError.self) { try RunPlan.edgeURL(wrong) }
    }
  }

  @Test("a search has stages of its own length") func search() throws {
    let plan = try plan("--find-max", "--stage", "5s", "--ring-p99-max", "10ms")
    #expect(plan.search?.stageSeconds == 5)
    #expect(plan.search?.ringP99Max == 10_000)
    #expect(plan.settings.durationSeconds == 5)
  }

  @Test("too few files: what is there, what is needed, how to raise it") func files() {
    let limit = FileLimit(soft: 1_024, hard: 4_096)
    #expect(limit.refusal(devices: 100) == nil)
    let text = limit.refusal(devices: 10_000) ?? ""
    #expect(text.contains("10,000 devices in one process need 10,256 open files"))
    #expect(text.contains("may have 1,024 (hard limit 4,096)"))
    #expect(text.contains("--nofile=10256:10256"))
    #expect(text.contains("at most --devices 768"))
  }

  @Test("the help has the options that people use, in groups") func help() {
    let help = LoadCommand.helpMessage(columns: 120)
    for group in ["\nLOAD:", "\nA CLUSTER OF ITS OWN:", "\nREPORTS:"] {
      #expect(help.contains(group), "\(group)")
    }
    #expect(help.contains("--slice <i/n>") && help.contains("callload merge"))
    for rare in ["--signals", "--unregistered", "--provider-trouble"] {
      #expect(!help.contains(rare), "\(rare)")
    }
  }
}
