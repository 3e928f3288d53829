import CallBus
import NATSBus
import Testing

@Suite struct PermissionTests {
  /// A process with all roles, whose inbox is its own, may do what each of them may, and no more.
  @Test func allIsTheSumOfTheRoles() {
    let subjects = Subjects(cluster: "test", shardCount: 4)
    func permissions(_ role: NATSRole) -> NATSPermissions {
      NATSPermissions(role, subjects, lanes: ["fcm", "web"])
    }
    func inbox(_ role: NATSRole) -> String { subjects.inbox(of: role.rawValue) + ".>" }
    let all = permissions(.all)
    let roles: [NATSRole] = [.edge, .coordinator, .push]
    #expect(Set(all.publish) == Set(roles.flatMap { permissions($0).publish }))
    let subscribed = roles.flatMap { role in
      permissions(role).subscribe.filter { $0 != inbox(role) }
    }
    #expect(Set(all.subscribe) == Set(subscribed + [inbox(.all)]))
    #expect(Set(all.publish).count == all.publish.count)
    #expect(Set(all.subscribe).count == all.subscribe.count)
  }
}
