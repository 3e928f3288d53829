import ArgumentParser
import CallAuth
import CallCore
import CallLoadKit
import CallTestKit
import Testing

/// The server that callload plays for the hook of its apps, and what the command line and the report say of it and of the
/// second app.
@Suite struct HookServerTests {
  private static let all: [HookTerms] =
    [.allow, .name("Caller 7"), .slowName("Caller 7"), .forward("u17"), .late, .broken]
    + HookTerms.Refusal.allCases.map { .refuse($0) }

  private func question(
    _ server: HookServer, _ terms: String, app: String = "load", isSigned: Bool = true
  ) -> SimulatedRequest {
    let body = [UInt8](
      """
      {"type":"call.placing","timestamp":"2027-01-15T08:00:00.000Z","data":{"call":"x",\
      "app":"\(app)","caller":{"user":"u1","device":"d0"},"callee":{"user":"u2"},"video":false,\
      "headers":[{"name":"\(HookTerms.header)","value":"\(terms)"}]}}
      """.utf8)
    let secret = isSigned ? server.address.secret : [UInt8](repeating: 1, count: 32)
    let signature = SignedEndpoint(url: "", secrets: [secret])
      .signature(id: "call_x", seconds: 9, body: body)
    return SimulatedRequest(
      method: "POST", target: "/hook",
      headers: [
        ("webhook-id", "call_x"), ("webhook-timestamp", "9"), ("webhook-signature", signature),
      ], body: body)
  }

  @Test(arguments: all) func aHeaderSaysWhatTheServerAnswers(terms: HookTerms) {
    #expect(HookTerms(terms.text) == terms)
  }

  @Test func whatIsNoAnswerIsNotRead() {
    for text in ["", "nap", "refuse", "refuse nap", "name", "allow x"] {
      #expect(HookTerms(text) == nil, "\(text)")
    }
  }

  @Test func itAnswersWhatItIsAskedFor() async throws {
    let server = try await HookServer.start(apps: ["load", "strict"])
    func body(_ reply: SimulatedReply) -> String? {
      if case .answer(200, _, let body) = reply { body } else { nil }
    }
    let allow = server.answer(question(server, "allow"))
    #expect(body(allow) == #"{"action":"allow"}"#)
    let named = server.answer(question(server, "name Caller 7", app: "strict"))
    #expect(body(named) == #"{"action":"allow","callerName":"Caller 7"}"#)
    let sent = server.answer(question(server, "forward u17"))
    #expect(body(sent) == #"{"action":"forward","to":["u17"]}"#)
    let refused = server.answer(question(server, "refuse unavailable"))
    #expect(body(refused)?.contains(#""reason":"unavailable""#) == true)
    if case .blackHole = server.answer(question(server, "late")) {} else { Issue.record("late") }
    if case .later(_, .answer(200, _, _)) = server.answer(question(server, "slowName x")) {
    } else {
      Issue.record("slow")
    }
    var result = RunResult()
    server.report(into: &result)
    #expect(result.isCorrect && result.hook?.questions == 6)
    #expect(result.hook?.answers["name"] == 1 && result.hook?.answers["refuse"] == 1)
    await server.stop()
  }

  @Test func questionsThatAreNotSignedOrNotReadableCount() async throws {
    let server = try await HookServer.start(apps: ["load"])
    for wrong in [
      question(server, "allow", isSigned: false), question(server, "allow", app: "other"),
      question(server, "nap"),
    ] {
      guard case .answer(403, _, _) = server.answer(wrong) else {
        Issue.record("it was answered")
        continue
      }
    }
    var result = RunResult()
    server.report(into: &result)
    #expect(result.correctness[.hookDisagrees] == 3 && result.hook?.questions == 0)
    await server.stop()
  }

  // MARK: Command line and report

  @Test func theSecondAppIsThereForThePartsThatNeedIt() throws {
    func has(_ words: String...) throws -> Bool {
      guard case .local(let options) = try plan(words).target else { return false }
      return options.hasStrictApp
    }
    #expect(try has() && has("--sleeping", "20%") && has("--find-max"))
    #expect(try !has("--scenario", "answered") && !has("--hostile", "each"))
    let command = try LoadCommand.parse(["--edge", "ws://h:1"])
    #expect(!command.hasStrictApp(.default))
  }

  @Test func report() throws {
    var report = makeReport()
    var ongoing = OngoingResult()
    (ongoing.states, ongoing.calls) = (12, 7)
    var hook = HookResult()
    (hook.questions, hook.answers) = (9, ["allow": 6, "late": 3])
    (report.result.ongoing, report.result.hook) = (ongoing, hook)
    (report.settings.ongoing, report.settings.hook) = (true, true)
    let lines = report.text(.plain)
    for part in [
      "Ongoing calls (as users", "Hook (as the app's", "  ongoing calls shown", "  told otherwise",
    ] {
      #expect(lines.contains { $0.hasPrefix(part) }, "\(part)")
    }
    let json = try fields(report)
    #expect(json["ongoing.states"] == .number(12) && json["ongoing.calls"] == .number(7))
    #expect(json["hook.questions"] == .number(9) && json["hook.late"] == .number(3))
    #expect(json["settings.ongoing"] == .bool(true) && json["settings.hook"] == .bool(true))
    let without = try fields(makeReport())
    #expect(without["hook.questions"] == nil && without["ongoing.states"] == nil)
    #expect(without["correctness.hookDisagrees"] == .number(0))
    #expect(!makeReport().text(.plain).contains { $0.contains("ongoing") })
  }
}
