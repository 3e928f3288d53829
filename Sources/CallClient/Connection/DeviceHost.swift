internal import CallCore
package import CallWire

/// What the drivers on one loop share.
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

/// The connection to which a device moves. Its driver keeps this object as long as the connection; once
/// `isCurrent`, callbacks reach the driver as those of any current connection do.
final class NextLink: DeviceLinkDelegate {
  var link: (any DeviceLink)?
  var isCurrent = false
  private weak var driver: DeviceDriver?

  init(driver: DeviceDriver) { self.driver = driver }

  func close(abruptly: Bool) {
    driver = nil
    link?.flush()
    link?.close(abruptly: abruptly)
    link = nil
  }

  func linkOpened() {
    if isCurrent { driver?.linkOpened() } else { driver?.nextOpened() }
  }

  func linkReceived(_ frame: ServerFrame) {
    if isCurrent { driver?.linkReceived(frame) } else { driver?.received(frame, on: .next) }
  }

  func linkReadCompleted() {
    if isCurrent { driver?.linkReadCompleted() }
  }

  func linkClosed(_ cause: LinkClosed) {
    if isCurrent { driver?.linkClosed(cause) } else { driver?.nextClosed(cause) }
  }
}
