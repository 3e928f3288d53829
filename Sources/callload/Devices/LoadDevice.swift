import CallClient
import CallCore
import CallWire

/// One device of the load, and what the load knows of it beside its machine.
final class LoadDevice {
  enum Setup { case idle, connecting, connected, refused }

  let index: Int
  /// It has a session only for calls that a push wakes it for.
  let sleeps: Bool
  private unowned let rig: LoadRig
  /// The places of its edges among the load's, in the order in which it tries them.
  private let edges: [Int]
  private let configuration: ClientMachine.Configuration
  private(set) lazy var driver = makeDriver()
  var setup = Setup.idle
  var isRegistered = false
  var connectAt = Timestamp(microseconds: 0)
  var registerAt = Timestamp(microseconds: 0)
  var calls: [CallID] = []
  /// Since when it has no session, against its will.
  var lostAt: Timestamp?
  /// It has no session, and only a push wakes it.
  private(set) var isAsleep = false
  /// The call that a push woke it for, until it is attached.
  var wokenFor: CallID?
  /// The request of a ping that waits for its reply, and when it was due.
  var ping: (request: UInt64, due: Timestamp)?

  init(index: Int, edges: [Int], rig: LoadRig, configuration: ClientMachine.Configuration) {
    self.index = index
    self.edges = edges
    self.rig = rig
    self.configuration = configuration
    self.sleeps = rig.sleep?.sleeps(index) == true
  }

  private func makeDriver() -> DeviceDriver {
    let driver = DeviceDriver(configuration) { [unowned rig] in
      rig.host
    } renewToken: { [unowned self] _ in
      rig.renewToken(self)
    } onEvent: { [unowned self] event in
      rig.handle(event, self)
    }
    driver.observer = self
    return driver
  }

  /// The edge that it is, or was last, connected to: its place among the load's.
  var edge: Int { edges[driver.edge] }
  var isAttached: Bool { driver.machine.isAttached }
  var isCallable: Bool { isAttached || isAsleep }

  func address(_ call: CallID) -> CallAddress { driver.machine.address(call) }

  /// Submits a command. A refusal by the device's own bound counts as a failure.
  /// - Returns: the request's id; nil where it was refused.
  @discardableResult
  func say(_ command: ClientCommand) -> UInt64? {
    let request = driver.submit(command)
    if request == nil { rig.count("device: too many commands wait") }
    return request
  }

  /// The socket breaks without a word. It comes back after a while.
  func drop(for span: Span) {
    guard isAttached else { return }
    rig.willDisconnect(self)
    driver.suspend()
    rig.loop.schedule(at: rig.loop.now + span) { [driver] in driver.resume() }
  }

  /// The system suspends a sleeping device's app, unless it has a call: its connection just breaks.
  func fallAsleep() {
    guard sleeps, !isAsleep, calls.isEmpty else { return }
    isAsleep = true
    wokenFor = nil
    rig.willDisconnect(self)
    driver.suspend()
  }

  func wake(for call: CallID) {
    isAsleep = false
    wokenFor = call
    driver.woken(for: call)
  }
}

extension LoadDevice: DeviceObserver {
  func sending(_ frame: ClientFrame) { rig.said(self, frame) }
  func received(_ frame: ServerFrame) { rig.received(self, frame) }
  func processed(_ frame: ServerFrame) { rig.processed(frame) }
  func closed(_ link: ClientMachine.Link, _ cause: LinkClosed) { rig.linkClosed(self, link, cause) }
}
