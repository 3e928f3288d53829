import CallWire

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
