/// placeholder
public struct UserRules: Sendable, Equatable {
  public struct Forward: Sendable, Equatable {
    public var users: [String]
    public init(users: [String]) { self.users = users }
  }
  public struct DoNotDisturb: Sendable, Equatable {
    public var until: Timestamp?
    public var except: [String]
    public init(until: Timestamp? = nil, except: [String] = []) {
      self.until = until
      self.except = except
    }
  }
  public var always: Forward?
  public var onBusy: Forward?
  public var onNoAnswer: Forward?
  public var noAnswerSeconds: UInt32 = 20
  public var onUnreachable: Forward?
  public var doNotDisturb: DoNotDisturb?
  public var firstDevices: [DeviceID] = []
  public var firstSeconds: UInt32 = 0
  public var changedAt = Timestamp(microseconds: 0)
  public init() {}
}
