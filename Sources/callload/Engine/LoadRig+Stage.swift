import CallClient
import CallCore
import CallWire
import Glibc
import Histogram

/// A stage of load: arrivals at a rate, then settling, then the result.
extension LoadRig {
  /// A class, so that nothing that looks at it makes its dictionaries be copied.
  final class Stage {
    let startedAt: Timestamp
    let arrivalsEndAt: Timestamp
    let expected: Int
    let completion: (RunResult) -> Void
    var arrivals: SplitMix64
    var nextArrival: Timestamp
    var drawn = 0
    var placed = 0
    var completed = 0
    var failed = 0
    var failures: [String: Int] = [:]
    /// The first call that ended so.
    var failureExamples: [String: String] = [:]
    var byPart: [String: Int] = [:]
    var checker: CallChecker
    var book = LatencyBook()
    /// Only where the options ask for them.
    var rings: [RingSample] = []
    var live: [CallID: LiveCall] = [:]
    /// Over for everybody, kept a while in case something is retransmitted. Oldest first.
    var quiet: [(call: CallID, judgeAt: Timestamp)] = []
    var quietFirst = 0
    var expectations: [CallID: CallPlan] = [:]
    var arrivalsDone = false
    var interruptedAt: Timestamp?
    var placedAtLastLook = 0
    var chaos = ChaosResult()
    /// Faults that are not lifted, or whose shards do not all answer yet: the stage waits for them.
    var openFaults: Set<Int> = []
    var faultBeganAt: [Int: Timestamp] = [:]
    var edgesDisturbed: [Int: [Int]] = [:]
    /// Faults that are on, until they are lifted.
    var outages: [Int: ChaosKind] = [:]
    /// The kinds of faults during which a call was placed.
    var placedDuring: [CallID: Set<ChaosKind>] = [:]
    /// Faults whose take-over is noted.
    var tookOver: Set<Int> = []
    var watched: Set<Int> = []
    var lifted: Set<Int> = []
    var pushes = PushResult()
    var pushJudge: PushJudge
    /// Devices that had the push for a call.
    var pushed: [CallID: Set<Int>] = [:]
    /// Devices that wake when the call is over.
    var lateWakes: [CallID: [Int]] = [:]
    /// Calls whose pushes are not judged yet. Oldest first.
    var pushQuiet: [(call: CallID, judgeAt: Timestamp)] = []
    var pushQuietFirst = 0
    /// Devices are about to wake, or wait to be registered: the stage waits for them.
    var wakesUntil = Timestamp(microseconds: 0)

    init(
      startedAt: Timestamp, expected: Int, duration: Double, seed: UInt64, roster: Roster,
      timeline: FaultTimeline, sleep: SleepPlan?, completion: @escaping (RunResult) -> Void
    ) {
      self.pushJudge = PushJudge { sleep?.profile($0)?.takes }
      self.pushes.sleeping = sleep?.sleepers.count ?? 0
      self.startedAt = startedAt
      self.arrivalsEndAt = startedAt + Span(microseconds: Int64(duration * 1_000_000))
      self.expected = expected
      self.completion = completion
      self.arrivals = SplitMix64(seed: seed)
      self.nextArrival = startedAt
      self.checker = CallChecker(roster: roster, seed: seed, timeline: timeline)
    }
  }

  /// How long a call that is over is watched before it is judged: the first repetitions of a
  /// delivery fall into it.
  static let quietSpan: Span = .milliseconds(1700)
  /// How long an interrupted stage waits for its calls.
  static let interruptedSpan: Span = .seconds(2)

  package func load(
    rate: Double, duration: Double, _ completion: @escaping (RunResult) -> Void
  ) {
    let start = loop.now + .milliseconds(20)
    let expected = max(1, Int((rate * duration).rounded()))
    stageCount += 1
    let stage = Stage(
      startedAt: start, expected: expected, duration: duration, seed: options.seed,
      roster: roster,
      timeline: FaultTimeline(roster: roster, app: options.app, shardCount: options.shardCount),
      sleep: sleep, completion: completion)
    stage.arrivalsDone = isInterrupted
    stage.interruptedAt = isInterrupted ? start : nil
    self.stage = stage
    progress.update { [connectedCount] in
      $0 = LoadProgress.Snapshot()
      $0.phase = .calling
      $0.total = expected
      $0.devicesConnected = connectedCount
    }
    startTicking()
    scheduleArrival()
    // While faults are injected, what a ping waits for is an outage.
    if !options.isDisturbed { schedulePing(at: start) }
  }

  // MARK: Arrivals

  /// The next of `expected` arrivals that lie evenly at random in the time that is left: a Poisson
  /// process, given its count.
  private func scheduleArrival() {
    guard let stage, !stage.arrivalsDone else { return }
    guard stage.drawn < stage.expected else {
      stage.arrivalsDone = true
      progress.update {
        $0.phase = .settling
        $0.total = stage.drawn
      }
      return
    }
    let left = Double(stage.expected - stage.drawn)
    let share = 1 - Glibc.pow(1 - Double.random(in: 0..<1, using: &stage.arrivals), 1 / left)
    let span = Double((stage.arrivalsEndAt - stage.nextArrival).microseconds)
    stage.nextArrival = stage.nextArrival + Span(microseconds: Int64(span * share))
    stage.drawn += 1
    let (number, intended) = (stage.drawn, stage.nextArrival)
    loop.schedule(at: intended) { [weak self] in self?.arrive(number, intended) }
  }

  private func arrive(_ number: Int, _ intended: Timestamp) {
    guard let stage, !stage.arrivalsDone else { return }
    scheduleArrival()
    guard let plan = drawCall(number: number, at: intended) else { return noFreePair(at: intended) }
    place(plan)
  }

  /// While something is disturbed calls last longer, and users who lost their sessions cannot call:
  /// then there may be too few of them.
  private func noFreePair(at now: Timestamp) {
    let before = now + Span(microseconds: -Self.faultsTell.microseconds)
    guard let fault = stage?.checker.timeline.disturbed(from: before, to: now) else {
      return fail("no free pair of users")
    }
    let cause = "not placed, no pair of users was free (\(fault.kind.rawValue))"
    stage?.chaos.changed[cause, default: 0] += 1
  }

  /// How long after a fault the calls that it held up may keep their users busy.
  private static let faultsTell: Span = .seconds(10)

  /// A call that failed before it was placed.
  private func fail(_ cause: String) {
    stage?.failures[cause, default: 0] += 1
    stage?.failed += 1
  }

  // MARK: Ends

  func finishIfSettled(_ call: CallID) {
    guard let stage, let live = stage.live[call], stage.checker.isSettled(call) else { return }
    finish(live)
  }

  /// The call is over, or is given up; what is left is to wait a little and judge.
  private func finish(_ live: LiveCall) {
    let plan = live.plan
    recordLast(live)
    stage?.live[plan.call] = nil
    stage?.quiet.append((plan.call, loop.now + Self.quietSpan))
    devices[plan.caller].calls.removeAll { $0 == plan.call }
    for callee in plan.callees { devices[callee].calls.removeAll { $0 == plan.call } }
    release(plan)
  }

  func stageTick(at now: Timestamp, ticks: Int) {
    guard stage != nil else { return }
    registerLate(at: now)
    judgeQuiet(at: now)
    judgePushes(at: now)
    if ticks % 10 == 0 {
      giveUpOverdue(at: now)
      showProgress()
    }
    endStageIfDone(at: now)
  }

  private func judgeQuiet(at now: Timestamp) {
    while let stage, stage.quietFirst < stage.quiet.count,
      stage.quiet[stage.quietFirst].judgeAt <= now
    {
      let call = stage.quiet[stage.quietFirst].call
      self.stage?.quietFirst += 1
      // What was lost on its way to a device may still be retransmitted.
      if let plan = stage.expectations[call], isDisturbed(plan, at: now) {
        self.stage?.quiet.append((call, now + Self.quietSpan))
      } else {
        judge(call, at: now)
      }
    }
    if let first = stage?.quietFirst, first > 4096 {
      stage?.quiet.removeFirst(first)
      stage?.quietFirst = 0
    }
  }

  private func isDisturbed(_ plan: CallPlan, at now: Timestamp) -> Bool {
    let settle = Span(microseconds: Int64(options.settleSeconds * 1_000_000))
    guard let timeline = stage?.checker.timeline, !timeline.isEmpty, now < plan.overAt + settle
    else { return false }
    let shard = timeline.shard(ofDevice: plan.callees.lowerBound)
    return timeline.disturbed(shard: shard, from: now, to: now) != nil
      || timeline.disturbed(device: plan.caller, from: now, to: now) != nil
      || plan.callees.contains { timeline.disturbed(device: $0, from: now, to: now) != nil }
  }

  private func judge(_ call: CallID, at now: Timestamp) {
    guard let plan = stage?.expectations.removeValue(forKey: call),
      let verdict = stage?.checker.judge(
        call, at: now, allowed: plan.allowed, isAttached: { isCallable($0) })
    else { return }
    defer { callForgotten(plan) }
    if let violation = verdict.violations.first {
      fail("rule broken: \(violation.rule.title)")
      tally(call, .wrong)
    } else if plan.allowed.contains(verdict.outcome) {
      stage?.completed += 1
      tally(call, .asPlanned)
    } else if let fault = verdict.explainedBy {
      let outcome = "\(verdict.outcome.name) instead of \(plan.allowed[0].name)"
      stage?.chaos.changed["\(outcome) (\(fault.rawValue))", default: 0] += 1
      tally(call, verdict.outcome.isRefusal ? .refused : .changed)
    } else {
      let expected = plan.allowed.map(\.name).joined(separator: " or ")
      let cause = "\(verdict.outcome.name) instead of \(expected)"
      fail(cause)
      tally(call, .wrong)
      if stage?.failureExamples[cause] == nil { stage?.failureExamples[cause] = verdict.story }
    }
  }

  private func giveUpOverdue(at now: Timestamp) {
    guard let stage else { return }
    let settle = Span(microseconds: Int64(options.settleSeconds * 1_000_000))
    for live in stage.live.values where live.plan.overAt + settle < now { finish(live) }
  }

  func interruptStage() {
    guard let stage, stage.interruptedAt == nil else { return }
    self.stage?.interruptedAt = loop.now
    self.stage?.arrivalsDone = true
    progress.update {
      $0.phase = .settling
      $0.total = stage.placed
    }
  }

  private func endStageIfDone(at now: Timestamp) {
    guard let stage, stage.arrivalsDone else { return }
    guard stage.openFaults.isEmpty || stage.interruptedAt != nil else { return }
    if let interruptedAt = stage.interruptedAt, interruptedAt + Self.interruptedSpan < now {
      abandonLive()
    }
    guard self.stage?.live.isEmpty == true else { return }
    guard self.stage?.quietFirst == self.stage?.quiet.count else { return }
    guard stage.wakesUntil <= now || stage.interruptedAt != nil else { return }
    guard let done = self.stage else { return }
    judgeAllPushes()
    showProgress()
    self.stage = nil
    done.completion(result(of: done))
  }

  /// Calls in mid-flight when the run is ended early are not judged: nobody knows how they would
  /// have ended.
  private func abandonLive() {
    guard let live = stage?.live else { return }
    for call in live.values {
      release(call.plan)
      stage?.expectations[call.plan.call] = nil
      devices[call.plan.caller].calls.removeAll()
      for callee in call.plan.callees { devices[callee].calls.removeAll() }
    }
    if !live.isEmpty { stage?.failures["ended early", default: 0] += live.count }
    stage?.live.removeAll()
  }

  // MARK: Numbers

  private func showProgress() {
    guard let stage else { return }
    let p99 = stage.book.takeRecentRingP99()
    let placedSince = stage.placed - stage.placedAtLastLook
    stage.placedAtLastLook = stage.placed
    progress.update { [connectedCount] in
      $0.devicesConnected = connectedCount
      $0.callsLive = stage.live.count
      $0.callsPlaced = stage.placed
      $0.callsCompleted = stage.completed
      $0.errors = stage.failed
      $0.violations = stage.checker.counts.values.reduce(0, +)
      $0.done =
        stage.arrivalsDone
        ? stage.completed + stage.failed + stage.chaos.changedCount : stage.placed
      $0.faults = stage.chaos.injected.values.reduce(0, +)
      $0.rate = Double(placedSince)
      $0.ringP99 = p99 ?? $0.ringP99
    }
  }

  private func result(of stage: Stage) -> RunResult {
    var result = setupResult
    result.callsExpected = stage.expected
    result.callsPlaced = stage.placed
    result.callsCompleted = stage.completed
    result.callsByPart = stage.byPart
    result.failures.merge(stage.failures) { $0 + $1 }
    result.failureExamples = stage.failureExamples
    result.correctness = stage.checker.counts
    result.examples = stage.checker.examples
    result.latency.merge(stage.book.histograms) { $1 }
    result.rings = stage.rings
    let end = stage.interruptedAt ?? stage.arrivalsEndAt
    result.loadSeconds = max(0, Double((end - stage.startedAt).microseconds) / 1_000_000)
    result.interrupted = isInterrupted
    if sleep != nil { result.pushes = stage.pushes }
    if options.isDisturbed {
      var chaos = stage.chaos
      chaos.commandWait = stage.checker.waits
      chaos.commandsRetried = stage.checker.repeatedCommands
      result.chaos = chaos
    }
    return result
  }

  /// What is known after connecting.
  package var setupResult: RunResult {
    var result = RunResult()
    result.devicesExpected = roster.devices
    result.devicesConnected = connectedCount
    result.devicesRegistered = registeredCount
    result.registrationsOfUnknownFate = registrationsOfUnknownFate
    result.failures = setupFailures
    result.latency = setupBook.histograms
    result.rampSeconds = rampSeconds
    result.interrupted = isInterrupted
    for rule in CorrectnessRule.allCases { result.correctness[rule] = 0 }
    return result
  }
}
