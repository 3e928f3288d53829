import CallClient
import CallCore
import CallWire

/// One device of the load, and what the load knows of it beside its machine.
final class LoadDevice {
  enum Setup { case idle, connecting, connected, refused }

  let index: Int
  private unowned let rig: LoadRig
  /// The places of its edges among the load's, in the order in which it tries them.
  private let edges: [Int]
  private(set) lazy var driver = makeDriver()
  private let configuration: ClientMachine.Configuration
  var setup = Setup.idle
  var isRegistered = false
  /// When its connection was to begin.
  var connectAt = Timestamp(microseconds: 0)
  var registerAt = Timestamp(microseconds: 0)
  /// The calls that it takes part in.
  var calls: [CallID] = []
  /// Since when it has no session, against its will.
  var lostAt: Timestamp?
  /// It has no session, and only a push wakes it.
  var isAsleep = false
  /// The call that a push woke it for, until it is attached.
  var wokenFor: CallID?
  /// The request of a ping that waits for its reply, and when it was due.
  var ping: (request: UInt64, due: Timestamp)?

  init(
    index: Int, edges: [Int], rig: LoadRig, configuration: ClientMachine.Configuration
  ) {
    self.index = index
    self.edges = edges
    self.rig = rig
    self.configuration = configuration
  }

  private func makeDriver() -> DeviceDriver {
    let driver = DeviceDriver(configuration) { [unowned rig] in
      rig.host
    } renewToken: { [unowned self] driver in
      driver.tokenRenewed(rig.token(of: index))
    } onEvent: { [unowned self] event in
      rig.handle(event, self)
    }
    driver.observer = self
    return driver
  }

  /// The edge that it is, or was last, connected to: its place among the load's.
  var edge: Int { edges[driver.edge] }
  var isAttached: Bool { driver.machine.isAttached }
}

extension LoadDevice: DeviceObserver {
  func sending(_ frame: ClientFrame) { rig.said(self, frame) }
  func received(_ frame: ServerFrame) { rig.received(self, frame) }
  func processed(_ frame: ServerFrame) { rig.processed(frame) }
  func closed(_ link: ClientMachine.Link, _ cause: LinkClosed) {
    rig.linkClosed(self, link, cause)
  }
}
