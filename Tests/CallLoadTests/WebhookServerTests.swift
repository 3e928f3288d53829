import ArgumentParser
import CallAuth
import CallCore
import CallLoadKit
import CallTestKit
import Testing

/// The app's server that callload plays, and what the command line and the report say of it and of histories.
@Suite struct WebhookServerTests {
  private func request(
    _ server: WebhookServer, _ call: CallID, _ kind: AppEventKind, isSigned: Bool = true
  ) -> SimulatedRequest {
    let id = "call_\(call)_5_\(kind.name)"
    let end = kind == .ended ? #","reason":"hungUp","missed":false"# : ""
    let body = [UInt8](
      #"{"type":"\#(kind.type)","id":"\#(id)","app":"load","data":{"call":"\#(call)"\#(end)}}"#.utf8
    )
    let secret = isSigned ? server.address.secret : [UInt8](repeating: 1, count: 32)
    let signature = SignedEndpoint(url: "", secrets: [secret])
      .signature(id: id, seconds: 9, body: body)
    return SimulatedRequest(
      method: "POST", target: "/events",
      headers: [
        ("webhook-id", id), ("webhook-timestamp", "9"), ("webhook-signature", signature),
      ], body: body)
  }

  private func status(_ reply: SimulatedReply) -> Int? {
    if case .answer(let status, _, _) = reply { status } else { nil }
  }

  private func fate(_ call: CallID) -> CallFate {
    var fate = CallFate(call: call, caller: 0, callee: "u1")
    (fate.isAccepted, fate.answeredBy, fate.reason) = (true, 3, .hungUp)
    return fate
  }

  @Test func eventsAreTakenAndSomeAreRefusedOnce() async throws {
    let server = try await WebhookServer.start(apps: ["load"])
    var result = RunResult()
    var refused = 0
    for number in 1...500 as ClosedRange<UInt64> {
      let call = CallID(high: number, low: number &* 0x9E37_79B9_7F4A_7C15)
      result.webhooksDue.append(WebhookDue(fate(call)))
      for kind in [AppEventKind.placed, .answered, .ended] {
        let request = request(server, call, kind)
        let first = status(server.answer(request))
        guard first != 204 else { continue }
        #expect(first == 503)
        refused += 1
        #expect(status(server.answer(request)) == 204, "it is refused once")
      }
    }
    #expect(refused > 2 && refused < 60)
    await server.judge(&result, within: .zero, isWanted: { true })
    #expect(result.isCorrect, "\(result.examples)")
    #expect(
      result.webhooks == WebhookResult(calls: 500, events: 1_500, repeated: 0, refused: refused))
    #expect(result.webhooksDue.isEmpty)
    await server.stop()
  }

  @Test func whatIsNotSignedIsNotTaken() async throws {
    let server = try await WebhookServer.start(apps: ["load"])
    let call = CallID(high: 1, low: 2)
    #expect(status(server.answer(request(server, call, .placed, isSigned: false))) == 403)
    var strange = request(server, call, .placed)
    strange.headers[0].value = "another"
    #expect(status(server.answer(strange)) == 403)
    var result = RunResult()
    await server.judge(&result, within: .zero, isWanted: { true })
    #expect(result.correctness[.webhookInvented] == 2)
    await server.stop()
  }

  @Test func aRunThatWasEndedIsNotJudged() async throws {
    let server = try await WebhookServer.start(apps: ["load"])
    var result = RunResult()
    result.webhooksDue = [WebhookDue(fate(CallID(high: 1, low: 2)))]
    await server.judge(&result, within: .seconds(60), isWanted: { false })
    #expect(result.webhooks == nil && result.isCorrect && result.webhooksDue.isEmpty)
    await server.stop()
  }

  // MARK: Command line and report

  @Test func theClusterHasWhatTheyNeed() throws {
    guard case .local(let plain) = try plan("--scenario", "answered").target,
      case .local(let both) = try plan("--scenario", "answered", "--webhooks", "--history").target,
      case .local(let nodes) = try plan("--webhooks", "--nodes", "2").target,
      case .local(let standard) = try plan().target
    else {
      Issue.record("no local cluster")
      return
    }
    #expect(plain.pushGateways == 0 && !plain.keepsHistory)
    #expect(both.pushGateways == 1 && both.keepsHistory)
    #expect(standard.pushGateways == 1 && standard.keepsHistory)
    #expect(nodes.pushGateways == 0, "nodes deliver themselves")
  }

  @Test func theDefaultScenarioHasBoth() throws {
    func both(_ words: String...) throws -> [Bool] {
      let command = try LoadCommand.parse(words)
      let scenario = try #require(Scenario.named(command.load.scenario))
      return [command.readsHistories(scenario), command.hasWebhooks(scenario)]
    }
    #expect(try both() == [true, true] && both("--chaos", "all,kill-push=5s") == [true, true])
    #expect(try both("--scenario", "answered") == [false, false])
    #expect(try both("--scenario", "answered", "--history") == [true, false])
    #expect(try both("--scenario", "answered", "--webhooks") == [false, true])
    _ = try plan("--chaos", "kill-push=5s")
    for words in [
      ["--find-max"], ["--hostile", "each"], ["--apps", "2"], ["--check-growth"],
      ["--edge", "ws://h:1"], ["--other-callnode", "x"], ["--slice", "1/2"],
    ] {
      let command = try LoadCommand.parse(words)
      #expect(!command.readsHistories(.default) && !command.hasWebhooks(.default), "\(words)")
    }
  }

  @Test(arguments: ["--webhooks", "--history", "--ongoing", "--hook"]) func refusals(option: String)
  {
    #expect(refusal(option, "--edge", "ws://h:1").hasPrefix("\(option): is for the app of a local"))
    #expect(refusal(option, "--find-max").hasPrefix("\(option): does not go with --find-max"))
    #expect(refusal(option, "--hostile", "each").hasPrefix("\(option): does not go with --hostile"))
    #expect(refusal(option, "--apps", "2").hasPrefix("\(option): does not go with --apps"))
  }

  private func report() -> RunReport {
    var report = makeReport()
    report.settings.webhooks = true
    report.settings.history = true
    report.result.webhooks = WebhookResult(calls: 10, events: 40, repeated: 1, refused: 2)
    var history = HistoryResult()
    (history.users, history.entries, history.callsOfBothSides) = (5, 12, 4)
    report.result.history = history
    return report
  }

  @Test func text() {
    let lines = report().text(.plain)
    for part in ["Webhooks (as the app's", "Histories (as users", "  events", "  entries"] {
      #expect(lines.contains { $0.hasPrefix(part) }, "\(part)")
    }
    let titles = ["webhook lost", "webhook out of order", "history lost", "history doubled"]
    for title in titles { #expect(lines.contains { $0.hasPrefix("  \(title) ") }, "\(title)") }
    let without = makeReport().text(.plain)
    #expect(!without.contains { $0.contains("webhook") || $0.contains("history") })
  }

  @Test func json() throws {
    let json = try fields(report())
    #expect(json["webhooks.events"] == .number(40) && json["webhooks.refused"] == .number(2))
    #expect(json["history.users"] == .number(5))
    #expect(json["history.calls_of_both_sides"] == .number(4))
    #expect(json["settings.webhooks"] == .bool(true) && json["settings.history"] == .bool(true))
    let without = try fields(makeReport())
    #expect(without["webhooks.events"] == nil && without["history.users"] == nil)
    #expect(without["correctness.webhookLost"] == .number(0))
  }
}
