import ArgumentParser
import CallLoadKit
import Testing

@Suite("--chaos") struct ChaosPlanTests {
  private func refusal(_ texts: String...) -> String {
    do {
      return "accepted: \(try ChaosPlan(texts))"
    } catch {
      return "\(error)"
    }
  }

  @Test func kindsIntervalsAndLengths() throws {
    let plan = try ChaosPlan(["kill-coordinator=5s,kill-edge=7s/500ms", "freeze-edge"])
    #expect(plan.entries.map(\.kind) == [.killCoordinator, .killEdge, .freezeEdge])
    #expect(plan.entries.map(\.intervalSeconds) == [5, 7, 15])
    #expect(plan.entries.map(\.lengthSeconds) == [1, 0.5, 4.5])
    #expect(plan.description == "kill-coordinator=5s/1s,kill-edge=7s/500ms,freeze-edge=15s/4.5s")
    #expect(!plan.needsRelays)
    #expect(try ChaosPlan(["partition=5s"]).needsRelays)
    #expect(try ChaosPlan(["cut-nats"]).needsRelays)
  }

  @Test func lengthsMayDiffer() throws {
    let plan = try ChaosPlan(["kill-all-nats=20s/1s-15s,freeze-all-edges,freeze-nats=9s/2s"])
    #expect(plan.entries.map(\.shortestSeconds) == [1, nil, nil])
    #expect(plan.entries.map(\.lengthSeconds) == [15, 5, 2])
    #expect(
      plan.description == "kill-all-nats=20s/1s-15s,freeze-all-edges=60s/5s,freeze-nats=9s/2s")
    #expect(try ChaosPlan(["cut-nats"]).description == "cut-nats=40s/1s-15s")
  }

  @Test func allIsEveryKindThatNeedsNoOperator() throws {
    let kinds = try ChaosPlan(["all"]).entries.map(\.kind)
    #expect(kinds == ChaosKind.allCases.filter { $0 != .drain })
  }

  @Test func refusalsNameValueAndRemedy() {
    #expect(
      refusal("kill-everything=5s").hasPrefix(
        "--chaos kill-everything=5s: there is no kill-everything; known are kill-coordinator, "))
    #expect(
      refusal("kill-edge=soon")
        == "--chaos kill-edge=soon: \"soon\" is not a length of time; write it like 5s or 500ms")
    #expect(refusal("kill-edge=5s/").contains("\"\" is not a length of time"))
    #expect(refusal("kill-edge=5s/1s/1s").contains("give kill-edge=INTERVAL or kill-edge="))
    #expect(refusal("kill-edge=5s/2s-1s").contains("2s-1s ends before it begins"))
    #expect(refusal("kill-edge=5s/-1s").contains("\"\" is not a length of time"))
    #expect(refusal("kill-edge=100ms").contains("give at least 500ms"))
    #expect(
      refusal("kill-edge=5s", "kill-edge=6s")
        == "--chaos kill-edge=6s: kill-edge is given twice; give it once")
    #expect(refusal("").hasPrefix("--chaos : there is no ; known are"))
  }

  @Test func faultsStopEarlyEnough() throws {
    let plan = try ChaosPlan(["freeze-edge=5s/4s"])
    #expect(ChaosDirector.lastFaultSeconds(plan, duration: 60) == 51)
    #expect(ChaosDirector.lastFaultSeconds(plan, duration: 10) == 4)
  }

  @Test func theCommandLineChecksWhatGoesTogether() {
    #expect(
      planRefusal("--nats-servers", "2")
        == "--nats-servers 2: give 1, or 3 that keep each record three times")
    #expect(planRefusal("--chaos", "kill-edge", "--find-max").contains("leave one of them out"))
    #expect(
      planRefusal("--chaos", "kill-edge", "--edge", "ws://h:1", "--keys", "k").contains(
        "only a local cluster is disturbed"))
    #expect(planRefusal("--chaos", "kill-edge", "--duration", "3s").contains("give at least 5s"))
    #expect(
      planRefusal("--scenario", "answered", "--chaos", "kill-push=5s").contains(
        "only with --sleeping"))
    #expect(planRefusal("--node-setting", "x").contains("give it as key=value"))
  }

  private func planRefusal(_ words: String...) -> String {
    do {
      _ = try RunPlan(
        LoadCommand.parse(words + ["--nats", "/bin/sh", "--callnode", "/bin/sh"]), seed: 1)
      return "accepted"
    } catch {
      return "\(error)"
    }
  }
}
