import CallClient
import CallCore
import CallJudge
import CallWire
import Glibc
import NIOCore

/// A stage of load: arrivals at a rate, then settling, then the result. On the fleet's loop.
final class Stage {
  unowned let fleet: DeviceFleet
  let loop: any DeviceLoop
  let options: LoadOptions
  let startedAt: Timestamp
  let arrivalsEndAt: Timestamp
  private let completion: (RunResult) -> Void
  private var random: SplitMix64
  /// Apart from that of the arrivals, which depend on the seed alone.
  var pingRandom: SplitMix64
  private var nextArrival: Timestamp
  /// Fewer are expected where a second call is not placed.
  private let callsToDraw: Int
  private var drawn = 0
  var result: RunResult
  var placedAtLastLook = 0
  var failed = 0
  var checker: CallChecker
  var book = LatencyBook()
  private(set) var live: [CallID: LiveCall] = [:]
  /// Calls that are over for everybody, kept a while in case something is retransmitted.
  var quiet = CircularBuffer<(call: CallID, until: Timestamp)>()
  var plans: [CallID: CallPlan] = [:]
  /// Calls that are over before those that were placed while they were answered, by these.
  var waitingForSecond: [CallID: LiveCall] = [:]
  var arrivalsDone = false
  var interruptedAt: Timestamp?
  /// The stage does not end before: devices are about to wake or to register.
  private var staysUntil = Timestamp.zero
  private(set) lazy var faults = FaultWatch(self, fleet)
  private(set) lazy var pushes = fleet.sleep.map { PushReceiver(self, fleet, $0) }
  private(set) lazy var histories = options.readsHistories ? HistoryReader(self, fleet) : nil

  /// A call that is over is watched for retransmissions for this long, then judged.
  static let quietSpan: Span = .milliseconds(1700)
  private static let interruptedSpan: Span = .seconds(2)
  /// Calls that a fault held up may keep their users busy for this long after it.
  private static let busyAfterFault: Span = .seconds(10)

  init(
    _ fleet: DeviceFleet, calls: Int, duration: Double, _ completion: @escaping (RunResult) -> Void
  ) {
    self.fleet = fleet
    self.loop = fleet.loop
    self.options = fleet.options
    result = fleet.setupResult
    callsToDraw = calls
    result.callsExpected = calls
    if options.keepsSeries { result.series = LatencySeries(durationSeconds: duration) }
    self.completion = completion
    startedAt = loop.now + .milliseconds(20)
    arrivalsEndAt = startedAt + Span(seconds: duration)
    nextArrival = startedAt
    random = SplitMix64(seed: options.ownSeed)
    pingRandom = SplitMix64(seed: options.ownSeed)
    checker = CallChecker(
      roster: fleet.roster, seed: options.seed,
      timeline: FaultTimeline(
        roster: fleet.roster, app: options.app, shardCount: options.shardCount))
    arrivalsDone = fleet.isInterrupted
    interruptedAt = fleet.isInterrupted ? startedAt : nil
  }

  var devices: [LoadDevice] { fleet.devices }
  var isInterrupted: Bool { interruptedAt != nil }
  /// Calls are placed, or faults are not settled.
  var mayStillBeDisturbed: Bool { !arrivalsDone || faults.isSettling }
  var settle: Span { Span(seconds: options.settleSeconds) }

  func stay(until time: Timestamp) { staysUntil = max(staysUntil, time) }

  func begin() {
    fleet.progress.restart(
      .calling, of: result.callsExpected, devicesConnected: fleet.connectedCount)
    for device in devices where device.isAttached && options.showsOngoing(to: device.index) {
      checker.beginsToWatch(device.index, device.driver.machine.ongoing, at: loop.now)
    }
    scheduleArrival()
    // While faults are injected a ping measures outages.
    if !options.isDisturbed { schedulePing(at: startedAt) }
  }

  func interrupt() {
    guard interruptedAt == nil else { return }
    interruptedAt = loop.now
    endArrivals()
  }

  // MARK: Arrivals

  /// Draws the next of the remaining arrivals evenly at random: a Poisson process, given its count.
  private func scheduleArrival() {
    guard !arrivalsDone else { return }
    guard drawn < callsToDraw else { return endArrivals() }
    let left = Double(callsToDraw - drawn)
    let share = 1 - Glibc.pow(1 - Double.random(in: 0..<1, using: &random), 1 / left)
    let span = Double((arrivalsEndAt - nextArrival).microseconds)
    nextArrival = nextArrival + Span(microseconds: Int64(span * share))
    drawn += 1
    loop.schedule(at: nextArrival) { [weak self, drawn, nextArrival] in
      self?.arrive(drawn, nextArrival)
    }
  }

  private func endArrivals() {
    arrivalsDone = true
    fleet.progress.update {
      $0.phase = .settling
      $0.total = isInterrupted ? result.callsPlaced : drawn
    }
  }

  private func arrive(_ number: Int, _ intended: Timestamp) {
    guard !arrivalsDone else { return }
    scheduleArrival()
    let plan = fleet.planner.draw(
      number: number, intended: intended, now: loop.now,
      mayPair: drawn < callsToDraw, devices)
    guard let plan else { return noFreePair(at: intended) }
    place(plan)
    // Those of two that belong together are both of the calls that are to be placed.
    if plan.second != nil { drawn += 1 }
    let callees = fleet.roster.devices(of: fleet.roster.user(of: plan.caller))
    guard let back = CallPlan(callBackOf: plan, to: callees) else { return }
    drawn += 1
    loop.schedule(at: back.placeAt) { [weak self] in self?.place(back) }
  }

  /// Under faults calls last longer, and users without sessions cannot call: there may be too few.
  private func noFreePair(at now: Timestamp) {
    let fault = checker.timeline.disturbed(from: now - Self.busyAfterFault, to: now)
    guard let fault else { return fail("no free pair of users") }
    faults.explains("not placed, no pair of users was free", by: fault.kind)
  }

  func place(_ plan: CallPlan) {
    let attached = plan.devices.filter { devices[$0].isAttached }
    let expected = plan.callees.count { devices[$0].isThere }
    let live = LiveCall(plan: plan, expectedInvites: expected)
    self.live[plan.call] = live
    plans[plan.call] = plan
    result.callsPlaced += 1
    result.callsByPart[plan.kind.rawValue, default: 0] += 1
    checker.planned(
      CallChecker.Facts(
        call: plan.call, part: plan.kind, caller: plan.caller, callees: plan.callees,
        placedAt: loop.now, ringTimeout: .seconds(Int64(plan.ringTimeoutSeconds)),
        attached: Set(attached), crosses: plan.crosses, route: plan.route,
        transfer: plan.transfer?.terms, during: plan.during,
        hook: plan.hook.map {
          CallChecker.HookFacts($0, allowsWithoutAnswer: plan.isStrict)
        }))
    faults.placed(plan.call)
    pushes?.planned(plan)
    for device in plan.devices { devices[device].calls.append(plan.call) }
    let callee = plan.callee(fleet.roster)
    devices[plan.caller].submit(
      .place(
        CallAddress(callee: callee, call: plan.call),
        PlaceRequest(
          call: plan.call, ringTimeoutSeconds: plan.ringTimeoutSeconds,
          description: LiveCall.description,
          headers: plan.hook.map { [CustomHeader(name: HookTerms.header, value: $0.text)] } ?? [])))
    signalAfterPlacing(live)
  }

  // MARK: Ends

  func finishIfSettled(_ call: CallID) {
    if let found = live[call], checker.isSettled(call) { finish(found) }
  }

  /// The call is over, or given up. It is judged after a while.
  private func finish(_ call: LiveCall) {
    let plan = call.plan
    recordLast(call)
    secondIsOver(call)
    quiet.append((plan.call, loop.now + Self.quietSpan))
    forget(call)
  }

  private func forget(_ call: LiveCall) {
    let plan = call.plan
    live[plan.call] = nil
    for device in plan.devices { devices[device].calls.removeAll { $0 == plan.call } }
    release(call)
  }

  func tick(at now: Timestamp, ticks: Int) {
    fleet.registrations.tick(self, at: now)
    while let next = quiet.first, next.until <= now { judge(quiet.removeFirst().call, at: now) }
    pushes?.judge(at: now)
    if ticks % 10 == 0 {
      for call in live.values where call.plan.overAt + settle < now { finish(call) }
      showProgress()
    }
    endIfDone(at: now)
  }

  func fail(_ cause: String) {
    result.failures[cause, default: 0] += 1
    failed += 1
  }

  private func endIfDone(at now: Timestamp) {
    faults.tick(at: now)
    // A part of the load may have few calls, or none, and is there until the end all the same.
    guard arrivalsDone, isInterrupted || !faults.isSettling && arrivalsEndAt <= now else { return }
    if let interruptedAt, interruptedAt + Self.interruptedSpan < now { abandonLive() }
    guard live.isEmpty, quiet.isEmpty, isInterrupted || staysUntil <= now else { return }
    if !isInterrupted, histories?.isOver(at: now) == false { return }
    pushes?.judge(at: .distantFuture)
    showProgress()
    completion(finalResult())
  }

  /// The stage was interrupted: nothing is known of the end of live calls, so they are not judged.
  private func abandonLive() {
    guard !live.isEmpty else { return }
    result.failures["ended early", default: 0] += live.count
    for call in live.values {
      plans[call.plan.call] = nil
      forget(call)
    }
  }
}
