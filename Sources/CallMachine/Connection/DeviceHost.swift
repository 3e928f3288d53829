internal import CallCore
package import CallWire

/// The objects that the drivers on one loop share.
package final class DeviceHost {
  let loop: any DeviceLoop
  let network: any DeviceNetwork
  /// Whether ``tick()`` takes the place of a timer for each device.
  let ticks: Bool
  /// For the jitter of waits, which need not be secret.
  var random: SplitMix64
  var buffers: [[ClientMachine.Action]] = []
  /// Devices whose machines wait for something.
  var watched: [DeviceDriver] = []

  /// To be called on the loop.
  /// - Parameters:
  ///   - seed: for the jitter of waits.
  ///   - ticks: the owner calls ``tick()`` a few times a second. With many devices that costs less than
  ///     a timer for each command.
  package init(
    loop: any DeviceLoop, network: any DeviceNetwork, seed: UInt64, ticks: Bool = false
  ) {
    self.loop = loop
    self.network = network
    self.ticks = ticks
    self.random = SplitMix64(seed: seed)
  }

  /// Fires the deadlines of devices that connect, move, or wait for replies. Those of idle devices are
  /// seconds away: call ``DeviceDriver/fireIfDue(at:)`` on each every few seconds.
  package func tick() {
    let due = watched
    watched.removeAll(keepingCapacity: true)
    let now = loop.now
    for driver in due {
      driver.isWatched = false
      driver.fireIfDue(at: now)
    }
  }
}

/// Sees a device's frames.
package protocol DeviceObserver: AnyObject {
  func sending(_ frame: ClientFrame)
  /// Called before the machine sees the frame.
  func received(_ frame: ServerFrame)
  /// Called after the machine has seen the frame and its actions are carried out.
  func processed(_ frame: ServerFrame)
  /// A connection broke or could not be made. Called before the machine learns of it.
  func closed(_ link: ClientMachine.Link, _ cause: LinkClosed)
}

/// One connection of a device, to its current edge or to the one to which it moves. Its driver keeps this object
/// as long as the connection.
final class DriverLink: DeviceLinkDelegate {
  var link: (any DeviceLink)?
  var side: ClientMachine.Link
  let edge: Int
  private weak var driver: DeviceDriver?

  init(driver: DeviceDriver, side: ClientMachine.Link, edge: Int) {
    self.driver = driver
    self.side = side
    self.edge = edge
  }

  func close(abruptly: Bool) {
    driver = nil
    if !abruptly { link?.flush() }
    link?.close(abruptly: abruptly)
    link = nil
  }

  func linkOpened() { driver?.opened(on: side) }
  func linkReceived(_ frame: ServerFrame) { driver?.received(frame, on: side) }
  func linkReadCompleted() { if side == .current { driver?.readCompleted() } }
  func linkClosed(_ cause: LinkClosed) { driver?.closed(on: side, cause) }
}
