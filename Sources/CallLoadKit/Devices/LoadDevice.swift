import CallClient
import CallCore
import CallWire

/// One device of the load, and its state beside that of its machine.
final class LoadDevice {
  enum Setup { case idle, connecting, connected, refused }

  let index: Int
  /// It has a session only during calls that a push wakes it for.
  let sleeps: Bool
  private unowned let fleet: DeviceFleet
  /// The indices of its edges among the load's, in the order in which it tries them.
  private let edges: [Int]
  private let configuration: ClientMachine.Configuration
  private(set) lazy var driver = makeDriver()
  var setup = Setup.idle
  var isRegistered = false
  var connectAt = Timestamp.zero
  var registerAt = Timestamp.zero
  var calls: [CallID] = []
  var hasSession = false
  /// When it lost its session unintentionally; nil while it has one.
  var lostAt: Timestamp?
  private(set) var isAsleep = false
  /// The call that a push woke it for, until it is attached.
  var wokenFor: CallID?
  /// The request of a ping that waits for its reply, and when it was due.
  var ping: (request: UInt64, due: Timestamp)?

  init(index: Int, edges: [Int], fleet: DeviceFleet, configuration: ClientMachine.Configuration) {
    self.index = index
    self.edges = edges
    self.fleet = fleet
    self.configuration = configuration
    self.sleeps = fleet.sleep?.sleeps(index) == true
  }

  private func makeDriver() -> DeviceDriver {
    let driver = DeviceDriver(configuration) { [unowned fleet] in
      fleet.host
    } renewToken: { [unowned self] _ in
      fleet.renewToken(self)
    } onEvent: { [unowned self] event in
      fleet.handle(event, self)
    }
    driver.observer = self
    return driver
  }

  /// The index of its present or last edge among the load's; -1 if it is none of them.
  var edge: Int { driver.edge < edges.count ? edges[driver.edge] : -1 }
  var isAttached: Bool { driver.machine.isAttached }
  var isCallable: Bool { isAttached || isAsleep }
  /// It has a session, and never sleeps.
  var isThere: Bool { isAttached && !sleeps }

  func address(_ call: CallID) -> CallAddress { driver.machine.address(call) }

  /// Submits a command. A refusal by the client's own limit counts as a failure.
  /// - Returns: the request's id; nil where it was refused.
  @discardableResult
  func submit(_ command: ClientCommand) -> UInt64? {
    let request = driver.submit(command)
    if request == nil { fleet.count("device: too many commands wait") }
    return request
  }

  /// The socket breaks without a close frame. The device connects again after a while.
  func drop(for span: Span) {
    guard isAttached else { return }
    fleet.willDisconnect(self)
    driver.suspend()
    fleet.tap?.closed(index)
    fleet.loop.schedule(at: fleet.loop.now + span) { [driver] in driver.resume() }
  }

  /// The operating system suspends a sleeping device's app, unless it has a call: its connection breaks.
  func fallAsleep() {
    guard sleeps, !isAsleep, calls.isEmpty else { return }
    isAsleep = true
    wokenFor = nil
    fleet.willDisconnect(self)
    driver.suspend()
    fleet.tap?.closed(index)
  }

  func wake(for call: CallID) {
    isAsleep = false
    wokenFor = call
    driver.woken(for: call)
  }
}

extension LoadDevice: DeviceObserver {
  func sending(_ frame: ClientFrame) {
    fleet.stage?.checker.sent(device: index, frame, at: fleet.loop.now)
    fleet.tap?.sending(frame, self)
  }

  func received(_ frame: ServerFrame) {
    fleet.arrivedAt = fleet.loop.arrivedAt
    fleet.tap?.received(frame, self)
    fleet.stage?.received(self, frame)
  }

  func processed(_ frame: ServerFrame) {
    if case .delivery(let delivery) = frame { fleet.stage?.finishIfSettled(delivery.call) }
  }

  func closed(_ link: ClientMachine.Link, _ cause: LinkClosed) {
    fleet.linkClosed(self, link, cause)
  }
}
