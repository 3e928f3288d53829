import CallJudge
import CallProcesses
import CallSimulation
import Foundation
import TestSupport
import Testing

/// The command line tool: many seeds, sabotage, and one seed twice.
@Suite(.serialized) struct CallSimTests {
  private func callsim(_ arguments: String...) throws -> CommandOutput { try callsim(arguments) }

  private func callsim(_ arguments: [String]) throws -> CommandOutput {
    try CommandOutput.now(
      ChildCommand(name: "callsim", executable: Executables.built("callsim"), arguments: arguments),
      timeout: .seconds(3000))
  }

  /// Two hundred that together meet each race several times (`Tests/Run/choose_seeds.py`), and those that failed once.
  @Test func chosenSeedsBreakNoRuleAndMeetEveryRace() throws {
    let list = URL(filePath: #filePath).appending(path: "../../Run/seeds.txt").standardized
    let outcome = try callsim("--list", list.path, "--jobs", "2")
    #expect(outcome.status == 0, "\(outcome.text)")
    let count = try String(contentsOf: list, encoding: .utf8).split(separator: "\n").count
    #expect(count >= 200)
    #expect(outcome.text.contains("\n\(count) seeds (usual), 0 failed"), "\(outcome.text)")
  }

  @Test(.enabled(if: Proof.isOn, "only make prove runs it")) func aThousandSeedsBreakNoRule() throws
  {
    let outcome = try callsim("--seeds", "1000", "--jobs", "2")
    #expect(outcome.status == 0, "\(outcome.text)")
    #expect(outcome.text.contains("\n1000 seeds (usual), 0 failed"), "\(outcome.text)")
  }

  /// Seeds that no version had before, so that nothing is tuned to them. One that fails goes into `Tests/Run/seeds.txt`.
  @Test(.enabled(if: Proof.isOn, "only make prove runs it")) func newSeedsBreakNoRule() throws {
    let first = try #require(Proof.newSeeds)
    let outcome = try callsim("--seed", first, "--seeds", "1000", "--jobs", "2")
    #expect(outcome.status == 0, "\(outcome.text)")
  }

  @Test func aProcessThatDiesIsNoSuccess() throws {
    let arguments = ["--seeds", "6", "--jobs", "2", "--dies-at", "4"]
    let outcome = try callsim(arguments)
    #expect(outcome.status == 70, "\(outcome.text)")
    let sentence = "1 process ended in disorder, at seed 4; 4 of 6 seeds ran"
    #expect(outcome.text.contains(sentence), "\(outcome.text)")
    let json = try callsim(arguments + ["--json"])
    #expect(json.status == 70, "\(json.text)")
    #expect(json.text.contains("\"asked\":6,\"broken\":1,\"brokenAt\":[4],"), "\(json.text)")
  }

  /// The names of events that must occur in so many seeds: `callsim` exits with status 3 without one.
  @Test func racesAndFaultsThatMustBeMet() {
    let races = Set(SimRaces.required)
    #expect(
      races.isSuperset(of: [
        "R1", "R2", "R2 timeout", "R3", "R4", "R5", "R6", "R7", "R9", "R10", "R10 deadline",
        "R10 pushed", "R11", "R12", "R13", "R13 in mid-ring", "R14", "R15", "R16", "R17 early",
        "R18", "R19", "R19 pushed", "R20", "R22", "R23",
      ]))
    let push = Set(SimRaces.requiredOfPush)
    #expect(
      push.isSuperset(of: [
        "push.ring", "push.missed", "push.answeredElsewhere", "push.cancel", "push.ended",
        "push.missedNotice", "outcome.accepted", "outcome.tokenGone", "outcome.rejected",
        "outcome.expired", "outcome.failed", "fault.gateway crash", "fault.gateway crash with jobs",
        "fault.gateway freeze", "fault.gateway shutdown", "fault.provider silent",
        "provider.sent again", "phone.decline by HTTP", "phone.push to the former user",
      ]))
    let faults = Set(SimRaces.requiredFaults)
    #expect(
      faults.isSuperset(
        of: [
          "NATS killed", "NATS stopped", "cut off for long", "all edges freeze",
          "edge freezes for long",
        ].map { "fault.\($0)" }))
    var counts: [String: Int] = [:]
    for race in SimRaces.required { counts["race.\(race)"] = 1 }
    let others =
      SimRaces.requiredFaults + SimRaces.requiredBeside + SimRaces.requiredAnswers
      + SimRaces.requiredOfPush
    for name in others { counts[name] = 1 }
    #expect(SimRaces.missing(in: counts).isEmpty)
    counts["race.R12"] = nil
    counts["fault.edge drain"] = nil
    counts["late attach.declined"] = 0
    counts["outcome.expired"] = 0
    #expect(
      SimRaces.missing(in: counts) == [
        "R12", "fault.edge drain", "late attach.declined", "outcome.expired",
      ])
  }

  @Test(
    .enabled(if: Proof.isOn, "only make prove runs it"), arguments: [SimIntensity.calm, .brutal])
  func otherIntensities(_ intensity: SimIntensity) throws {
    let outcome = try callsim(
      "--seed", "5000", "--seeds", "40", "--jobs", "2", "--intensity", intensity.rawValue)
    #expect(outcome.status == 0, "\(outcome.text)")
  }

  /// The first seed that finds a sabotage, where that takes more than three. It spares the seeds before it, and no more:
  /// where this seed finds it no longer, the test looks from seed 1 on.
  private static let foundAt: [Sabotage: Int] = [
    .mergeNotAsked: 4, .crossingUnnoticed: 4, .sessionForgotten: 6, .sentTooLate: 7,
    .notRepeated: 11, .registrationUnfenced: 11, .secondNotCalled: 12, .consultedGoesOn: 12,
    .othersNotWanted: 44, .refusedTokenGone: 30, .pushGivenUp: 5,
  ]

  @Test(arguments: Sabotage.allCases)
  func sabotageIsFound(_ sabotage: Sabotage) throws {
    let arguments = ["--sabotage", sabotage.name, "--first"]
    var outcome = try callsim(
      arguments + (Self.foundAt[sabotage].map { ["--seed", "\($0)"] } ?? []))
    let mark = sabotage.facts.rule.map { " ms: \($0.rawValue)" } ?? " ms: "
    if outcome.status != 1 || !outcome.text.contains(mark) { outcome = try callsim(arguments) }
    #expect(outcome.status == 1, "\(sabotage.name) was not found: \(outcome.text)")
    #expect(outcome.text.contains(mark), "\(outcome.text)")
    let again =
      "--intensity \(sabotage.facts.intensity.rawValue) --sabotage \(sabotage.name) --trace"
    #expect(outcome.text.contains(again))
    // The trace follows it.
    #expect(outcome.text.contains("STOP: "), "\(outcome.text)")
  }

  /// The judge of a cluster whose journal and stores it does not read.
  @Test(arguments: [SimIntensity.calm, .usual])
  func devicesAloneRaiseNoFalseAlarm(_ intensity: SimIntensity) throws {
    let outcome = try callsim(
      "--without-stores", "--seeds", Proof.isOn ? "300" : "10", "--jobs", "2", "--intensity",
      intensity.rawValue)
    #expect(outcome.status == 0, "\(outcome.text)")
  }

  @Test(
    arguments: Proof.arguments(
      [Sabotage.losersNotStopped, .winnerNotTold, .endToldTwice, .callerToldOtherwise],
      andInProof: [
        .twoWinners, .callerNotTold, .winnerToldItLost, .answersIgnored, .signalsSwapped,
        .inviteAfterStop, .versionGoesBack, .stopWithoutReason, .winnerMisnamed, .repliesLost,
      ]))
  func devicesAloneFind(_ sabotage: Sabotage) throws {
    let outcome = try callsim("--without-stores", "--first", "--sabotage", sabotage.name)
    #expect(outcome.status == 1, "\(sabotage.name) was not found: \(outcome.text)")
  }

  @Test func whateverIsAppliedTwiceIsFound() throws {
    let outcome = try callsim("--sabotage", Sabotage.appliedTwice.name)
    for what in ["hears signal", "placed twice", "answered twice", "ended twice"] {
      #expect(outcome.text.contains(what), "\(what): \(outcome.text)")
    }
  }

  @Test(
    "a sabotage brings its seeds and its intensity, unless told otherwise",
    arguments: [
      (["stop-without-reason"], Sabotage.stopWithoutReason.facts.seeds, "usual"),
      (["stop-without-reason", "--jobs", "2"], Sabotage.stopWithoutReason.facts.seeds, "usual"),
      (["stop-without-reason", "--seed", "3", "--seeds", "2", "--intensity", "calm"], 2, "calm"),
      (["registration-unfenced", "--seed", "3"], 1, "brutal"),
      (["registration-unfenced", "--seeds", "2"], 2, "brutal"),
    ] as [([String], Int, String)])
  func defaultsOfSabotage(_ arguments: [String], _ seeds: Int, _ intensity: String) throws {
    let outcome = try callsim(["--json", "--sabotage"] + arguments)
    #expect(outcome.text.hasPrefix("{\"seeds\":\(seeds),\"intensity\":\"\(intensity)\","))
  }

  @Test func aSeedIsOneWorldOfTheUsualKind() throws {
    let outcome = try callsim("--seed", "3", "--json")
    #expect(outcome.text.hasPrefix("{\"seeds\":1,\"intensity\":\"usual\","))
  }

  @Test func aBookGoesOnWhereItEnds() throws {
    let book = FileManager.default.temporaryDirectory.appending(
      path: "callsim-book-\(UUID().uuidString).txt"
    ).path
    defer { try? FileManager.default.removeItem(atPath: book) }
    let first = try callsim("--seeds", "3", "--book", book)
    #expect(first.status == 0 && first.text.hasPrefix("3 seeds (usual)"))
    // Recorded seeds do not run again. Remarks are ignored.
    let text = try String(contentsOfFile: book, encoding: .utf8)
    #expect(text == "usual 1 3 failed 0\n")
    try (text + "a remark\nusual 4 40000 failed 0\n").write(
      toFile: book, atomically: true, encoding: .utf8)
    let second = try callsim("--seeds", "40002", "--book", book)
    #expect(second.status == 0 && second.text.hasPrefix("40002 seeds (usual)"))
    #expect(
      try String(contentsOfFile: book, encoding: .utf8).hasSuffix("usual 40001 40002 failed 0\n"))
    try "usual 1 10 failed 2\n".write(toFile: book, atomically: true, encoding: .utf8)
    let third = try callsim("--seeds", "10", "--book", book)
    #expect(third.status == 1, "what failed once is not forgotten")
  }

  @Test func theSameSeedGivesTheSameTrace() throws {
    let first = try callsim("--seed", "7", "--trace", "all")
    let second = try callsim("--seed", "7", "--trace", "all")
    let other = try callsim("--seed", "8", "--trace", "all")
    #expect(first.text == second.text)
    #expect(first.text != other.text)
    #expect(first.text.contains("trace ") && first.text.count > 100_000)
  }
}
