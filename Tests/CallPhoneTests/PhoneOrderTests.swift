import ArgumentParser
import CallPhoneKit
import CallmeshClient
import Testing

@Suite struct PhoneOrderTests {
  @Test(
    arguments: [
      ("call bob", .call("bob", video: false)), ("  call bob video ", .call("bob", video: true)),
      ("answer", .answer(nil)), ("answer 2", .answer(2)), ("decline 7", .decline(7)),
      ("hangup", .hangUp(nil)), ("pull", .pull(1)), ("pull 3", .pull(3)),
      ("transfer carl", .transfer("carl")), ("transfer cancel", .cancelTransfer),
      ("say on  hold", .say("on hold")), ("calls", .calls), ("ongoing", .ongoing),
      ("history", .history(10)), ("history 3", .history(3)), ("read", .read),
      ("wait answered", .wait("answered", seconds: 30)),
      ("wait ended 5", .wait("ended", seconds: 5)),
      ("help", .help), ("quit", .quit), ("", .nothing), ("# a note", .nothing),
    ] as [(String, PhoneOrder)])
  func linesAreOrders(line: String, order: PhoneOrder) throws {
    #expect(try PhoneOrder(line) == order)
  }

  @Test(arguments: [
    ("dial bob", "There is no order dial; help lists them."),
    ("answer now", "now is no number from 1 up."),
    ("hangup 0", "0 is no number from 1 up."),
    (
      "wait",
      "The order is: wait EVENT [SECONDS]  for scripts: go on when EVENT has come, 30 s at most"
    ),
  ])
  func mistakesAreNamed(line: String, problem: String) {
    #expect(throws: PhoneProblem(problem)) { try PhoneOrder(line) }
  }

  @Test func jsonHasWhatAppliesAlone() {
    var line = PhoneLine("ended")
    (line.call, line.peer, line.reason, line.missed) = (2, "bob", "unanswered", true)
    #expect(
      line.json == #"{"call":2,"event":"ended","missed":true,"peer":"bob","reason":"unanswered"}"#)
    #expect(line.words == "[2] ended bob unanswered (missed)")
  }
}

@Suite struct PhoneCommandTests {
  private func token(_ arguments: [String], _ environment: [String: String] = [:]) throws -> String
  {
    try PhoneCommand.parse(arguments).options(environment: environment).token
  }

  @Test func theTokenComesFromAnOptionOrTheEnvironment() throws {
    #expect(try token(["--token", "a"], ["CALLMESH_TOKEN": "b"]) == "a")
    #expect(try token([], ["CALLMESH_TOKEN": "b"]) == "b")
    #expect(throws: (any Error).self) { try token([]) }
    #expect(throws: (any Error).self) { try token(["--token", "a", "--react", "sing"]) }
  }

  @Test func aCommandPrintsTokens() async throws {
    let options = try PhoneCommand.parse(["--token-command", "echo one; echo two"])
      .options(environment: [:])
    #expect(try await options.getToken?() == "one")
    let failing = try PhoneCommand.parse(["--token-command", "false"]).options(environment: [:])
    await #expect(throws: PhoneProblem.self) { try await failing.getToken?() }
  }

  @Test func helpTeaches() {
    let help = PhoneCommand.helpMessage(columns: 80)
    for word in ["wait EVENT", "no media", "EXIT STATUS", "--json"] { #expect(help.contains(word)) }
  }
}
