-- part/may: what the rest of a script needs leave for. Half of it done would be worse than nothing.
-- Same as: room::model::apply

-- Goes before every write. A user who may not run one of these commands on the key stops the script here.
local function must_be_allowed(key, ...)
  for _, command in ipairs({ ... }) do
    if not redis.acl_check_cmd(command, key, '1', '1', '1') then
      error("The user executing the script can't run " .. command)
    end
  end
end
